package tree

import (
	"os"
	"slices"
	"strings"
)

// maxHop is how many levels lie between a directory that is held open and the next one: what a path costs the
// kernel, however deep it lies.
const maxHop = 32

// maxHeld is how many directories are held open at once.
const maxHeld = 64

// held is a directory that is open so that what lies below it is reached from there. No link leads to it.
type held struct {
	path string
	root *os.Root
}

// Pass begins a pass over the tree, which ends with the function that it returns. Within one, directories on the way
// to what was asked for last are held open, so that a pass costs as much as there are names, not as their depths add
// up to. A pass within another is a part of it. Whatever comes after finds its way from the root again.
func (t *Tree) Pass() (end func()) {
	t.passes++
	return func() {
		if t.passes--; t.passes == 0 {
			t.drop("")
		}
	}
}

// drop lets go of what is held at and below a path; everything if it is empty.
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

// Asked is how many names the kernel was asked for on the way to what was looked at and changed. Tests bound it.
func (t *Tree) Asked() int { return t.asked }

// nearest returns the directory from which to reach a path, its own path, and the way from there.
func (t *Tree) nearest(p string) (from *os.Root, above, way string) {
	from, way = t.root, p
	n := len(t.held)
	if t.passes == 0 || strings.Count(p, "/") <= maxHop {
		return from, "", way
	}
	if n > 1 && t.held[n-1].path == p {
		n-- // what is held is reached from the one above, so that it has its name
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
		t.hold(held{above, next})
		n = len(t.held)
	}
	return from, above, way
}

// hold keeps a directory open, and lets go of the uppermost one if there are too many.
func (t *Tree) hold(next held) {
	if len(t.held) == maxHeld {
		t.held[0].root.Close()
		t.held = slices.Delete(t.held, 0, 1)
	}
	t.held = append(t.held, next)
}

// open opens a directory that no link leads to; nil if there is none.
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

// near does something at a path, from the nearest directory that is held. Where a link on the way leads out of that
// one, it is done from the root.
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
