package tree

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Match is a path found by a pattern.
type Match struct {
	// Path has no links above it, but may be a link itself.
	Path string
	// Via is the link in front of the match; empty without a link.
	Via  string
	Info fs.FileInfo
}

// Glob returns the matches of a pattern, sorted by path. Wildcards of path.Match also match a leading dot, and "**" matches any
// number of directories. Matches behind a link have Via set. A missing path is no error.
func (t *Tree) Glob(pattern string) ([]Match, error) {
	if err := below(pattern); err != nil {
		return nil, err
	}
	defer t.Pass()()
	g := glob{tree: t, found: map[string]Match{}, seen: map[place]bool{}}
	if err := g.expand(".", components(pattern), "", 0); err != nil {
		return nil, err
	}
	matches := make([]Match, 0, len(g.found))
	for _, m := range g.found {
		matches = append(matches, m)
	}
	slices.SortFunc(matches, func(a, b Match) int { return strings.Compare(a.Path, b.Path) })
	return matches, nil
}

type glob struct {
	tree  *Tree
	found map[string]Match
	// seen prevents repeated visits through circular links and several "**".
	seen map[place]bool
}

// place is a directory visited with a number of remaining components.
type place struct {
	dir   string
	parts int
	via   bool
}

// expand matches the first part in dir, and the other parts below.
func (g *glob) expand(dir string, parts []string, via string, links int) error {
	here := place{dir, len(parts), via != ""}
	if g.seen[here] {
		return nil
	}
	g.seen[here] = true
	part, rest := parts[0], parts[1:]
	if part != "**" && !strings.ContainsAny(part, `*?[\`) {
		info, err := g.tree.Lstat(path.Join(dir, part))
		if err != nil {
			return ignoreAbsent(err)
		}
		return g.step(dir, info, rest, via, links)
	}
	if part == "**" && len(rest) > 0 {
		if err := g.expand(dir, rest, via, links); err != nil {
			return err
		}
	}
	entries, err := g.tree.List(dir)
	if err != nil {
		return ignoreAbsent(err)
	}
	for _, entry := range entries {
		if part != "**" {
			if ok, err := path.Match(part, entry.Name()); err != nil || !ok {
				continue
			}
		}
		info, err := entry.Info()
		if err != nil {
			if ignoreAbsent(err) == nil {
				continue
			}
			return err
		}
		if err := g.wild(dir, part, info, rest, via, links); err != nil {
			return err
		}
	}
	return nil
}

// wild handles one entry that matched a wildcard. "**" descends into directories, but not through links.
func (g *glob) wild(dir, part string, info fs.FileInfo, rest []string, via string, links int) error {
	if part != "**" {
		return g.step(dir, info, rest, via, links)
	}
	child := path.Join(dir, info.Name())
	if len(rest) == 0 {
		g.add(child, info, via)
	}
	if !info.IsDir() {
		return nil
	}
	ok, err := g.tree.enter(dir, child)
	if err != nil || !ok {
		return ignoreAbsent(err)
	}
	return g.expand(child, append([]string{"**"}, rest...), via, links)
}

// step adds one entry as a match, or continues below it.
func (g *glob) step(dir string, info fs.FileInfo, rest []string, via string, links int) error {
	child := path.Join(dir, info.Name())
	if len(rest) == 0 {
		g.add(child, info, via)
		return nil
	}
	switch {
	case info.IsDir():
		ok, err := g.tree.enter(dir, child)
		if err != nil || !ok {
			return ignoreAbsent(err)
		}
		return g.expand(child, rest, via, links)
	case info.Mode()&fs.ModeSymlink != 0 && links < maxLinks:
		target, behind, err := g.tree.Resolve(child)
		if err != nil || !behind.IsDir() || Volatile(target) {
			return ignoreAbsent(err)
		}
		return g.expand(target, rest, child, links+1)
	default:
		return nil
	}
}

func (g *glob) add(p string, info fs.FileInfo, via string) {
	if earlier, found := g.found[p]; found && earlier.Via == "" {
		return
	}
	g.found[p] = Match{Path: p, Via: via, Info: info}
}

// Volatile reports whether every boot creates the path again, so that no disk contains it.
func Volatile(p string) bool {
	top, _, _ := strings.Cut(p, "/")
	return slices.Contains([]string{"dev", "proc", "run", "sys"}, top)
}

func ignoreAbsent(err error) error {
	if err == nil || errors.Is(absent(err), fs.ErrNotExist) {
		return nil
	}
	return err
}

// Walk calls visit for everything at and below a path, in lexical order, without links and foreign file systems. A missing path
// is no error. visit may return fs.SkipDir and fs.SkipAll.
func (t *Tree) Walk(p string, visit func(p string, info fs.FileInfo) error) error {
	defer t.Pass()()
	info, err := t.Lstat(p)
	if err != nil {
		return ignoreAbsent(err)
	}
	pending := []walked{{p, path.Dir(p), info}}
	for len(pending) > 0 {
		next := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if err := visit(next.path, next.info); err != nil {
			if errors.Is(err, fs.SkipDir) {
				continue
			}
			if errors.Is(err, fs.SkipAll) {
				return nil
			}
			return err
		}
		below, err := t.below(next)
		if err != nil {
			return err
		}
		slices.Reverse(below)
		pending = append(pending, below...)
	}
	return nil
}

type walked struct {
	path, parent string
	info         fs.FileInfo
}

func (t *Tree) below(w walked) ([]walked, error) {
	if !w.info.IsDir() {
		return nil, nil
	}
	if ok, err := t.enter(w.parent, w.path); err != nil || !ok {
		return nil, ignoreAbsent(err)
	}
	entries, err := t.List(w.path)
	if err != nil {
		return nil, ignoreAbsent(err)
	}
	below := make([]walked, 0, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			if ignoreAbsent(err) == nil {
				continue
			}
			return nil, err
		}
		below = append(below, walked{path.Join(w.path, entry.Name()), w.path, info})
	}
	return below, nil
}
