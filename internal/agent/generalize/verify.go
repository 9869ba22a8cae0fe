package generalize

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// RuleCheck is the second look's result for one rule.
type RuleCheck struct {
	Rule string
	// Why is the reason if the rule is not met; else empty.
	Why string
}

// Verify checks every applicable rule on a tree. Its search differs from the run's: it walks from a pattern's fixed
// part and matches whole paths with a regular expression. The run expands the pattern by components.
func Verify(t *tree.Tree, p *rules.Profile, before *DonorValues) []RuleCheck {
	var verdicts []RuleCheck
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.AppliesTo(before.OS) {
			continue
		}
		why, err := verify(t, r, before)
		if err != nil {
			why = fmt.Sprintf("unknown: %v", err)
		}
		verdicts = append(verdicts, RuleCheck{Rule: r.ID, Why: why})
	}
	return verdicts
}

func verify(t *tree.Tree, r *rules.Rule, before *DonorValues) (string, error) {
	switch r.Action {
	case rules.Refuse:
		return gone(t, r, &DonorValues{})
	case rules.Keep:
		return whyNotKept(t, r, before), nil
	case rules.Record:
		content, err := optional(t, tree.Rel(r.Paths[0]))
		if err == nil && !recorded(content, before) {
			return "no line for the present generation in " + r.Paths[0], nil
		}
		return "", err
	case rules.Install:
		return whyNotInstalled(t, r), nil
	case rules.Edit:
		return edited(t, r, before)
	case rules.Forget:
		return whyRemembered(t, r, before)
	case rules.Delete, rules.Regenerate:
		if r.Names != "" {
			return whyNamed(t, r, before), nil
		}
		why, err := gone(t, r, before)
		if err == nil && why == "" {
			why = whyNotMadeAgain(t, r)
		}
		return why, err
	case rules.Truncate:
		return whyNotEmpty(t, r)
	default:
		return "", fmt.Errorf("no way to verify the action %q", r.Action)
	}
}

// gone names the first path that should have been removed.
func gone(t *tree.Tree, r *rules.Rule, before *DonorValues) (why string, err error) {
	if r.Unless != nil && holds(t, r.Unless) {
		return "", nil
	}
	count, first := 0, ""
	err = search(t, r, func(m tree.Match) error {
		if r.Only == "files" && m.Info.IsDir() || r.Excepts(m.Name) || !contains(r, t, m.Path) || before.protects(m.Path) || m.Info.IsDir() && holdsKept(t, r, before, m) {
			return nil
		}
		if count++; count == 1 {
			first = m.Path
		}
		return nil
	})
	if count > 0 {
		why = fmt.Sprintf("/%s is there (%d found)", first, count)
	}
	return why, err
}

// holdsKept reports whether a directory exists only for kept content.
func holdsKept(t *tree.Tree, r *rules.Rule, before *DonorValues, dir tree.Match) bool {
	if !before.protectsBelow(dir.Path) && len(r.Except) == 0 {
		return false
	}
	stays, others := false, false
	err := t.Walk(dir.Path, func(p string, info fs.FileInfo) error {
		if r.Excepts(nameBelow(dir, p)) || before.protects(p) {
			stays = true
			return fs.SkipDir
		}
		if others = !info.IsDir(); others {
			return fs.SkipAll
		}
		return nil
	})
	return err == nil && stays && !others
}

// holds reports whether a line of a condition's files matches.
func holds(t *tree.Tree, c *rules.Condition) bool {
	for _, pattern := range c.Paths {
		found := false
		err := searchPattern(t, tree.Rel(pattern), tree.Rel(pattern), 0, func(m tree.Match) error {
			content, err := t.Read(m.Path)
			found = found || err == nil && c.Matcher.Match(content)
			return nil
		})
		if err == nil && found {
			return true
		}
	}
	return false
}

func edited(t *tree.Tree, r *rules.Rule, before *DonorValues) (why string, err error) {
	err = search(t, r, func(m tree.Match) error {
		p := m.Path
		if why != "" || m.Info.IsDir() || isNoText(t, r, m) {
			return nil
		}
		content, err := t.Read(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if wrong := editors[r.Editor].check(t, p, content, r, before); wrong != "" {
			why = fmt.Sprintf("/%s: %s", p, wrong)
		}
		return nil
	})
	return why, err
}

func whyNotKept(t *tree.Tree, r *rules.Rule, before *DonorValues) string {
	for _, p := range before.kept[r.ID] {
		if _, err := t.Lstat(p); err != nil {
			return fmt.Sprintf("/%s had to stay: %v", p, err)
		}
	}
	return ""
}

func whyNotInstalled(t *tree.Tree, r *rules.Rule) string {
	p := tree.Rel(r.Paths[0])
	info, err := t.Lstat(p)
	if err != nil {
		return fmt.Sprintf("/%s is not there", p)
	}
	if r.Link != "" {
		if target, err := t.Readlink(p); err != nil || target != r.Link {
			return fmt.Sprintf("/%s is not a link to %s", p, r.Link)
		}
		return ""
	}
	content, err := t.Read(p)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != r.Installed.Perm || !bytes.Equal(content, r.Installed.Content) {
		return fmt.Sprintf("/%s differs from the rule", p)
	}
	return ""
}

func whyNotMadeAgain(t *tree.Tree, r *rules.Rule) string {
	for _, by := range r.Programs() {
		if info, err := t.Lstat(tree.Rel(by)); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			return fmt.Sprintf("%s, the program that makes the file again, does not exist", by)
		}
	}
	return ""
}

func whyNotEmpty(t *tree.Tree, r *rules.Rule) (string, error) {
	for _, p := range r.Paths {
		_, info, err := t.Resolve(tree.Rel(p))
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := t.Lstat(tree.Rel(p)); err != nil && !r.Present {
				return fmt.Sprintf("%s had to be there, and empty", p), nil
			}
			continue
		}
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() || info.Size() > 0 {
			return fmt.Sprintf("%s is not an empty file", p), nil
		}
	}
	return "", nil
}

// search calls visit for every path of a rule.
func search(t *tree.Tree, r *rules.Rule, visit func(tree.Match) error) error {
	for _, pattern := range r.Paths {
		if err := searchPattern(t, tree.Rel(pattern), tree.Rel(pattern), 0, visit); err != nil {
			return err
		}
	}
	return nil
}

// searchPattern walks below the part of a pattern without wildcards. It follows a link to a directory in which the rest
// of the pattern may match. rule is the pattern of the rule, which differs from the pattern behind a link.
func searchPattern(t *tree.Tree, pattern, rule string, links int, visit func(tree.Match) error) error {
	if links > 40 {
		return nil
	}
	parts := strings.Split(pattern, "/")
	fixed := 0
	for fixed < len(parts)-1 && !rules.Wild(parts[fixed]) {
		fixed++
	}
	base, err := resolveDir(t, path.Join(append([]string{"."}, parts[:fixed]...)...))
	if err != nil || base == "" {
		return err
	}
	rest := parts[fixed:]
	name := strings.TrimSuffix(strings.TrimSuffix(rule, strings.Join(rest, "/")), "/")
	upTo := make([]*regexp.Regexp, len(rest)+1)
	for i := range rest {
		upTo[i+1] = expression(rest[:i+1])
	}
	matches, anyDepth := upTo[len(rest)], strings.Contains(pattern, "**")
	return t.Walk(base, func(p string, info fs.FileInfo) error {
		if p == base {
			return nil
		}
		below := strings.TrimPrefix(p, base+"/")
		depth := strings.Count(below, "/") + 1
		if matches.MatchString(below) {
			if err := visit(tree.Match{Path: p, Name: path.Join(name, below), Info: info}); err != nil {
				return err
			}
		}
		if anyDepth {
			return nil
		}
		if depth < len(rest) && upTo[depth].MatchString(below) {
			if info.Mode()&fs.ModeSymlink == 0 {
				return nil
			}
			more := path.Join(rest[depth:]...)
			return searchPattern(t, path.Join(p, more), path.Join(name, below, more), links+1, visit)
		}
		return fs.SkipDir
	})
}

// resolveDir returns the real path of a directory; empty if missing, volatile, or not on the machine's disks.
func resolveDir(t *tree.Tree, dir string) (string, error) {
	real, info, err := t.Resolve(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || !info.IsDir() || real != dir && tree.Volatile(real) {
		return "", err
	}
	if ok, err := t.OnDisk(real); err != nil || !ok {
		return "", err
	}
	return real, nil
}

// expression returns the regular expression of a pattern's components.
func expression(parts []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "**" && last:
			b.WriteString(`.+`)
		case part == "**":
			b.WriteString(`(?:[^/]+/)*`)
			continue
		default:
			b.WriteString(component(part))
		}
		if !last {
			b.WriteString(`/`)
		}
	}
	b.WriteString(`$`)
	return compiled(b.String())
}

// expressions are the compiled expressions of rules' patterns, by text. Each search asks for those of all rules.
var expressions sync.Map

func compiled(text string) *regexp.Regexp {
	known, ok := expressions.Load(text)
	if !ok {
		known, _ = expressions.LoadOrStore(text, regexp.MustCompile(text))
	}
	return known.(*regexp.Regexp)
}

// component translates the wildcards of path.Match. Classes have the same syntax in both.
func component(part string) string {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '*':
			b.WriteString(`[^/]*`)
		case '?':
			b.WriteString(`[^/]`)
		case '[':
			end := strings.IndexByte(part[i:], ']')
			b.WriteString(part[i : i+end+1])
			i += end
		case '\\':
			i++
			b.WriteString(regexp.QuoteMeta(part[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(part[i : i+1]))
		}
	}
	return b.String()
}
