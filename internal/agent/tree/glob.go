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
	// Name is the path that the pattern matches. It differs from Path behind a link.
	Name string
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
	if err := g.expand(way{dir: ".", name: "."}, components(pattern)); err != nil {
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

// way is a directory on the way of a pattern.
type way struct {
	// dir is its path without links, and name is its path by the pattern.
	dir, name string
	// via is the last link on the way, and links is their number.
	via   string
	links int
	// mount is the mount of dir; nil if unknown.
	mount *mount
}

// below returns the way into a directory.
func (w way) below(child string) way {
	w.dir, w.name = path.Join(w.dir, child), path.Join(w.name, child)
	return w
}

// shortcut skips the parts without wildcards at the beginning. Most paths of a profile are missing on a machine, and the
// kernel says so in one call.
func (g *glob) shortcut(at way, parts []string) (_ way, rest []string, missing bool) {
	n := plainParts(parts)
	if n == 0 {
		return at, parts, false
	}
	plain := path.Join(parts[:n]...)
	switch err := lookup(g.tree, path.Join(at.dir, plain)); {
	case err == nil && n > 1:
		at = at.below(path.Dir(plain))
		at.mount = &g.tree.mount
		return at, parts[n-1:], false
	case err != nil:
		return at, parts, ignoreAbsent(err) == nil
	default:
		return at, parts, false
	}
}

// expand matches the first part in a directory, and the other parts below.
func (g *glob) expand(at way, parts []string) error {
	at, parts, missing := g.shortcut(at, parts)
	here := place{at.dir, len(parts), at.via != ""}
	if missing || g.seen[here] {
		return nil
	}
	g.seen[here] = true
	part, rest := parts[0], parts[1:]
	if isPlain(part) {
		info, err := g.tree.Lstat(path.Join(at.dir, part))
		if err != nil {
			return ignoreAbsent(err)
		}
		return g.step(at, info, rest)
	}
	if part == "**" && len(rest) > 0 {
		if err := g.expand(at, rest); err != nil {
			return err
		}
	}
	entries, err := g.tree.List(at.dir)
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
		if err := g.wild(at, part, info, rest); err != nil {
			return err
		}
	}
	return nil
}

// plainParts returns the number of parts without wildcards at the beginning.
func plainParts(parts []string) int {
	n := slices.IndexFunc(parts, func(part string) bool { return !isPlain(part) })
	if n < 0 {
		return len(parts)
	}
	return n
}

func isPlain(part string) bool { return !strings.ContainsAny(part, `*?[\`) }

// wild handles one entry that matched a wildcard. "**" descends into directories, but not through links.
func (g *glob) wild(at way, part string, info fs.FileInfo, rest []string) error {
	if part != "**" {
		return g.step(at, info, rest)
	}
	child := at.below(info.Name())
	if len(rest) == 0 {
		g.add(child, info)
	}
	if !info.IsDir() {
		return nil
	}
	var err error
	if child.mount, err = g.tree.enter(at.mount, at.dir, child.dir); err != nil || child.mount == nil {
		return ignoreAbsent(err)
	}
	return g.expand(child, append([]string{"**"}, rest...))
}

// step adds one entry as a match, or continues below it.
func (g *glob) step(at way, info fs.FileInfo, rest []string) error {
	child := at.below(info.Name())
	if len(rest) == 0 {
		g.add(child, info)
		return nil
	}
	switch {
	case info.IsDir():
		var err error
		if child.mount, err = g.tree.enter(at.mount, at.dir, child.dir); err != nil || child.mount == nil {
			return ignoreAbsent(err)
		}
		return g.expand(child, rest)
	case info.Mode()&fs.ModeSymlink != 0 && at.links < maxLinks:
		target, behind, err := g.tree.Resolve(child.dir)
		if err != nil || !behind.IsDir() || Volatile(target) {
			return ignoreAbsent(err)
		}
		return g.expand(way{dir: target, name: child.name, via: child.dir, links: at.links + 1}, rest)
	default:
		return nil
	}
}

func (g *glob) add(at way, info fs.FileInfo) {
	if earlier, found := g.found[at.dir]; found && earlier.Via == "" {
		return
	}
	g.found[at.dir] = Match{Path: at.dir, Name: at.name, Via: at.via, Info: info}
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
	pending := []walked{{path: p, parent: path.Dir(p), info: info}}
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
	above        *mount // of the parent; nil if unknown
}

func (t *Tree) below(w walked) ([]walked, error) {
	if !w.info.IsDir() {
		return nil, nil
	}
	here, err := t.enter(w.above, w.parent, w.path)
	if err != nil || here == nil {
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
		below = append(below, walked{path.Join(w.path, entry.Name()), w.path, info, here})
	}
	return below, nil
}
