package tree

import (
	"os"
	"slices"
	"strings"
)

// maxHop is the number of levels between two open directories. It bounds the kernel's work for a path of any depth.
const maxHop = 32

// maxHeld is the number of open directories.
const maxHeld = 64

// openDirectory is an open directory from which deeper paths are opened. No link leads to it.
type openDirectory struct {
	path string
	root *os.Root
}

// Pass begins a pass over the tree; the returned function ends it. During a pass directories on the last path stay
// open, so that the cost depends on the number of names and not on depth. Nested passes are part of the outer pass.
func (t *Tree) Pass() (end func()) {
	t.passes++
	return func() {
		if t.passes--; t.passes == 0 {
			t.drop("")
		}
	}
}

// drop closes the open directories at and below a path; all if the path is empty.
func (t *Tree) drop(p string) {
	for n := len(t.held); n > 0; n-- {
		last := t.held[n-1]
		if p != "" && last.path != p && !strings.HasPrefix(last.path, p+"/") {
			return
		}
		last.root.Close()
		t.held = t.held[:n-1]
	}
}

// Asked returns the number of names looked up in the kernel, for tests.
func (t *Tree) Asked() int { return t.asked }

// nearest returns the open directory for a path, with its own path and the remaining path.
func (t *Tree) nearest(p string) (from *os.Root, above, way string) {
	from, way = t.root, p
	n := len(t.held)
	if t.passes == 0 || strings.Count(p, "/") <= maxHop {
		return from, "", way
	}
	if n > 1 && t.held[n-1].path == p {
		n-- // an open directory is reached from its parent, for its name
	} else {
		for ; n > 0 && !strings.HasPrefix(p, t.held[n-1].path+"/"); n-- {
			t.held[n-1].root.Close()
			t.held = t.held[:n-1]
		}
	}
	if n > 0 {
		from, above = t.held[n-1].root, t.held[n-1].path
		way = p[len(above)+1:]
	}
	for n == len(t.held) && strings.Count(way, "/") > maxHop {
		length := 0
		for range maxHop {
			length += strings.IndexByte(way[length:], '/') + 1
		}
		next := t.open(from, way[:length-1])
		if next == nil {
			break
		}
		above, way = p[:len(p)-len(way)+length-1], way[length:]
		from = next
		t.hold(openDirectory{above, next})
		n = len(t.held)
	}
	return from, above, way
}

// hold adds an open directory, and closes the topmost directory beyond the limit.
func (t *Tree) hold(next openDirectory) {
	if len(t.held) == maxHeld {
		t.held[0].root.Close()
		t.held = slices.Delete(t.held, 0, 1)
	}
	t.held = append(t.held, next)
}

// open opens a directory without links in its path; nil if impossible.
func (t *Tree) open(from *os.Root, way string) *os.Root {
	at := from
	for part := range strings.SplitSeq(way, "/") {
		t.asked += 2
		info, err := at.Lstat(part)
		var next *os.Root
		if err == nil && info.IsDir() {
			next, err = at.OpenRoot(part)
		}
		if at != from {
			at.Close()
		}
		if err != nil || next == nil {
			return nil
		}
		at = next
	}
	return at
}

// near calls do with the nearest open directory. If a link leads out of the directory, do is called with the root.
func near[T any](t *Tree, p string, do func(from *os.Root, way string) (T, error)) (T, error) {
	from, _, way := t.nearest(p)
	t.asked += strings.Count(way, "/") + 1
	result, err := do(from, way)
	if err != nil && from != t.root && escapes(err) {
		t.asked += strings.Count(p, "/") + 1
		return do(t.root, p)
	}
	return result, err
}
