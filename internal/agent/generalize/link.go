package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// nameBelow returns the name of a path below a match, as the match's pattern would name it.
func nameBelow(m tree.Match, p string) string { return m.Name + strings.TrimPrefix(p, m.Path) }

// notOfOne are top directories that no link of an administrator makes a place for other data. Source: FHS 3.0.
var notOfOne = []string{"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}

// whyNotFollowed returns why a rule must not act behind a link, where other data may be; empty if it may, and without a link.
// Links that move a directory are followed: /var/lib/kubelet to /data/kubelet, and ostree's /home to /var/home.
func whyNotFollowed(t *tree.Tree, m tree.Match) string {
	if m.Via == "" {
		return ""
	}
	target, _, err := t.Resolve(m.Via)
	if err != nil {
		return fmt.Sprintf("/%s: %v", m.Via, err)
	}
	if moves(m.Via, target) {
		return ""
	}
	return fmt.Sprintf("/%s is a link to /%s, which may hold other data, so Kamino does not follow the link: name the target %s, or replace the link with a bind mount",
		m.Via, target, path.Join(path.Dir("/"+target), path.Base(m.Via)))
}

// moves reports whether a link moves a directory: the name of the target has a word that begins with the link's name, and the
// target is not at the top.
func moves(link, target string) bool {
	name, top := path.Base(link), strings.Split(target, "/")
	if target == "usr/"+link {
		return true // merged /usr
	}
	return len(top) > 1 && !slices.Contains(notOfOne, top[0]) && !strings.HasPrefix(link+"/", target+"/") &&
		slices.ContainsFunc(strings.FieldsFunc(path.Base(target), func(c rune) bool { return strings.ContainsRune("-_.", c) }), func(word string) bool { return strings.HasPrefix(word, name) })
}

// followed returns the path of a file that may not exist, behind the links that rules follow.
func followed(t *tree.Tree, p string) (string, error) {
	dir, _, err := t.Resolve(path.Dir(p))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil || dir == path.Dir(p) {
		return p, err
	}
	for at := path.Dir(p); at != "."; at = path.Dir(at) {
		info, err := t.Lstat(at)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if why := whyNotFollowed(t, tree.Match{Via: at}); why != "" {
				return "", errors.New(why)
			}
			break
		}
	}
	return path.Join(dir, path.Base(p)), nil
}

// unwritable returns why files of Kamino cannot be written.
func unwritable(t *tree.Tree, paths ...string) (whys []string) {
	for _, p := range paths {
		rel := tree.Rel(p)
		if err := tree.CheckPath(t, rel); err != nil {
			return append(whys, err.Error())
		}
		if info, err := t.Lstat(rel); err == nil && !info.Mode().IsRegular() {
			return append(whys, fmt.Sprintf("%s is not a regular file: remove it", p))
		}
	}
	return nil
}

// unplaced returns why a rule cannot write its file or link.
func unplaced(t *tree.Tree, rule *rules.Rule) ([]string, error) {
	p := tree.Rel(rule.Paths[0])
	if rule.Action == rules.Record {
		real, err := followed(t, p)
		if err != nil {
			return []string{fmt.Sprintf("rule %s: %v", rule.ID, err)}, nil
		}
		p = real
	}
	if err := tree.CheckPath(t, p); err != nil {
		return []string{fmt.Sprintf("rule %s: %v", rule.ID, err)}, nil
	}
	info, err := t.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case rule.Link != "" && info.IsDir(), rule.Action == rules.Record && !info.Mode().IsRegular():
		return []string{fmt.Sprintf("rule %s: /%s is not a file: remove it", rule.ID, p)}, nil
	default:
		return nil, nil
	}
}

// linkedFiles returns why a rule cannot empty its files: a link whose target has content. The rule empties files, and leaves
// the targets of links to their own rules.
func linkedFiles(t *tree.Tree, rule *rules.Rule) ([]string, error) {
	for _, p := range rule.Paths {
		rel := tree.Rel(p)
		if err := tree.CheckPath(t, rel); err != nil {
			return []string{fmt.Sprintf("rule %s: %v", rule.ID, err)}, nil
		}
		link, err := t.Lstat(rel)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		target, info, err := t.Resolve(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist), link.Mode().IsRegular():
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return []string{fmt.Sprintf("rule %s: %s is not a file: remove it", rule.ID, p)}, nil
		case info.Size() > 0 && !slices.Contains(emptied, target):
			return []string{fmt.Sprintf("rule %s: %s is a link to /%s: replace the link with a file", rule.ID, p, target)}, nil
		}
	}
	return nil, nil
}

// emptied are the files that a rule empties, or removes on Flatcar. D-Bus's copy of the machine ID is often a link to it.
var emptied = []string{"etc/machine-id"}

// linked returns why a rule cannot act on a match behind a link.
func linked(t *tree.Tree, rule *rules.Rule, found []tree.Match) []string {
	for _, m := range found {
		if why := whyNotFollowed(t, m); why != "" {
			return []string{fmt.Sprintf("rule %s: %s", rule.ID, why)}
		}
	}
	return nil
}
