package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

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
