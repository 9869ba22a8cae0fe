package generalize

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// namedSwap returns the swap files named by fstab and units at a rule's paths, as paths of the tree, with the units.
// Swap partitions are wiped elsewhere.
func namedSwap(t *tree.Tree, r *rules.Rule) (named []string, err error) {
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

// swapIn returns the swap file of a line: in fstab the first field, if the third is "swap"; in a unit the value of
// What=. Source: fstab(5), systemd.swap(5).
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

// matches returns the matches of a rule: at its paths, or named in files there.
func (b *DonorValues) matches(t *tree.Tree, r *rules.Rule) ([]tree.Match, error) {
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
			// A line with a directory names no swap file, and must not delete it.
			if !m.Info.IsDir() {
				found = append(found, m)
			}
		}
	}
	return found, nil
}

// swapSignatures end the first page of a swap space, in the current and the first version. Source: mkswap(8).
var swapSignatures = []string{"SWAPSPACE2", "SWAP-SPACE"}

// notSwap returns files that settings name as swap but that are not swap space. Deleting such a file would destroy
// data. A file that another rule removes by its path is not reported.
func notSwap(p *rules.Profile, t *tree.Tree, r *rules.Rule, before *DonorValues) (whys []string, err error) {
	found, err := before.matches(t, r)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if !m.Info.Mode().IsRegular() || r.Matches(m.Path) || deletes(p, m.Path) {
			continue
		}
		is, err := isSwap(t, m.Path)
		if err != nil {
			return nil, fmt.Errorf("rule %s: /%s: %w", r.ID, m.Path, err)
		}
		if !is {
			whys = append(whys, fmt.Sprintf("rule %s: /%s is named as swap by %s, but has no swap signature, and is not deleted: correct the name, or run mkswap",
				r.ID, m.Path, strings.Join(r.Paths, " or ")))
		}
	}
	return whys, nil
}

// deletes reports whether a rule removes a path.
func deletes(p *rules.Profile, at string) bool {
	return slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Action == rules.Delete && r.Names == "" && r.Matches(at) })
}

// removes reports whether a rule removes a path, also for a maker to create it again.
func removes(p *rules.Profile, t *tree.Tree, at string) bool {
	return deletes(p, at) || slices.ContainsFunc(p.Rules, func(r rules.Rule) bool {
		return r.Action == rules.Regenerate && r.Matches(at) && contains(&r, t, at) && p.Exempted(r.ID) == ""
	})
}

// isSwap checks for the signature at the end of the first page, for every page size of Linux.
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

// allNamed returns the files that the rules for named files remove.
func (b *DonorValues) allNamed() []string {
	var all []string
	for _, paths := range b.named {
		all = append(all, paths...)
	}
	return all
}

// literal returns the pattern for one path.
func literal(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// whyNamed returns an existing file that was named as swap.
func whyNamed(t *tree.Tree, r *rules.Rule, before *DonorValues) string {
	for _, p := range before.named[r.ID] {
		if _, info, err := t.Resolve(p); err == nil && !info.IsDir() {
			return fmt.Sprintf("/%s is there", p)
		}
	}
	return ""
}
