package generalize

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// namedSwap returns the swap files that fstab and units at a rule's paths name, as paths of the tree, and
// those units. A partition is no file: it is wiped.
func namedSwap(t *tree.Tree, r *Rule) (named []string, err error) {
	for _, pattern := range r.Paths {
		found, err := t.Glob(tree.Rel(pattern))
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
		for _, m := range found {
			if m.Info.IsDir() {
				continue
			}
			content, err := t.Read(m.Path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("rule %s: %w", r.ID, err)
			}
			isUnit := strings.HasSuffix(m.Path, ".swap")
			for line := range strings.Lines(string(content)) {
				if file := swapIn(line, isUnit); file != "" {
					named = append(named, tree.Rel(file))
					if isUnit {
						named = append(named, m.Path)
					}
				}
			}
		}
	}
	slices.Sort(named)
	return slices.Compact(named), nil
}

// swapIn is the swap file that a line names: in fstab the first of three fields, of which the third is
// "swap"; in a unit What=. Source: fstab(5), systemd.swap(5).
func swapIn(line string, isUnit bool) string {
	file := ""
	if isUnit {
		what, found := strings.CutPrefix(strings.TrimSpace(line), "What")
		what, assigned := strings.CutPrefix(strings.TrimSpace(what), "=")
		if found && assigned {
			file = strings.Trim(strings.TrimSpace(what), `"`)
		}
	} else if fields := strings.Fields(line); len(fields) >= 3 && fields[2] == "swap" {
		file = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[0])
	}
	if !strings.HasPrefix(file, "/") || strings.HasPrefix(file, "/dev/") || tree.Rel(file) == "." {
		return ""
	}
	return file
}

// matches are what a rule finds: at its paths, or named there.
func (b *Before) matches(t *tree.Tree, r *Rule) ([]tree.Match, error) {
	if r.Names == "" {
		return findAll(t, r)
	}
	var found []tree.Match
	for _, p := range b.named[r.ID] {
		at, err := t.Glob(literal(p))
		if err != nil {
			return nil, fmt.Errorf("rule %s: look for /%s: %w", r.ID, p, err)
		}
		for _, m := range at {
			// A line that names a directory is no swap file's, and must not take it away.
			if !m.Info.IsDir() {
				found = append(found, m)
			}
		}
	}
	return found, nil
}

// swapSignatures end the first page of a swap space, of the present and of the first version. Source: mkswap(8).
var swapSignatures = []string{"SWAPSPACE2", "SWAP-SPACE"}

// notSwap names what settings call swap and what is none: to delete it would take away what somebody wrote there. What
// another rule removes by its path goes all the same.
func (p *Profile) notSwap(t *tree.Tree, r *Rule, before *Before) (whys []string, err error) {
	found, err := before.matches(t, r)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if !m.Info.Mode().IsRegular() || r.names(m.Path) || p.deletes(m.Path) {
			continue
		}
		is, err := isSwap(t, m.Path)
		if err != nil {
			return nil, fmt.Errorf("rule %s: /%s: %w", r.ID, m.Path, err)
		}
		if !is {
			whys = append(whys, fmt.Sprintf("rule %s: /%s is named as swap, by %s, and has no signature of swap, so it is not deleted: correct what names it, or make it one with mkswap",
				r.ID, m.Path, strings.Join(r.Paths, " or ")))
		}
	}
	return whys, nil
}

// names says whether one of a rule's patterns is of a path itself.
func (r *Rule) names(p string) bool {
	return slices.ContainsFunc(r.Paths, func(pattern string) bool {
		is, err := path.Match(tree.Rel(pattern), p)
		return err == nil && is
	})
}

// deletes says whether a rule removes a path that it names.
func (p *Profile) deletes(at string) bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Action == Delete && r.Names == "" && r.names(at) })
}

// isSwap looks for the signature at the end of a page of any size that Linux has.
func isSwap(t *tree.Tree, p string) (bool, error) {
	f, err := t.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for page := int64(4 << 10); page <= 64<<10; page *= 2 {
		found := make([]byte, len(swapSignatures[0]))
		if _, err := f.ReadAt(found, page-int64(len(found))); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if slices.Contains(swapSignatures, string(found)) {
			return true, nil
		}
	}
	return false, nil
}

// literal is the pattern of one path.
func literal(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// whyNamed says which of what was named is there.
func whyNamed(t *tree.Tree, r *Rule, before *Before) string {
	for _, p := range before.named[r.ID] {
		if _, info, err := t.Resolve(p); err == nil && !info.IsDir() {
			return fmt.Sprintf("/%s is there", p)
		}
	}
	return ""
}
