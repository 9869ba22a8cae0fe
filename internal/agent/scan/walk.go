package scan

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// treeWalk walks through a tree. Each directory is opened from an open ancestor at most maxHop levels above. The cost
// of a file is therefore independent of its depth.
type treeWalk struct {
	*scanner
	ctx     context.Context
	root    *os.Root
	unknown directories
	names   linkedNames
}

// maxHop is the number of levels between a directory and the open ancestor.
const maxHop = 32

// openDirectory is an open directory with pending descendants.
type openDirectory struct {
	root *os.Root
	uses int
}

func (h *openDirectory) release() {
	if h.uses--; h.uses == 0 {
		h.root.Close()
	}
}

// placeOf is a place in the tree.
type placeOf struct {
	// name is the path of the machine. shown is the path without secrets, for reports.
	name, shown string
	// broughtBy is the origin of the content; empty if unknown.
	broughtBy string
}

// folder is a pending directory.
type folder struct {
	placeOf
	from *openDirectory
	rel  string
	hops int
	dev  uint64
	// mount is the ID of the parent's mount; 0 if unknown.
	mount uint64
}

// walk searches a directory and everything below it.
func (w *treeWalk) walk(top string) error {
	root, err := w.root.OpenRoot(".")
	if err != nil {
		return err
	}
	first := &folder{placeOf: placeOf{name: "/" + strings.TrimPrefix(top, "."), shown: "/" + strings.TrimPrefix(top, ".")}, from: &openDirectory{root, 1}, rel: top}
	if info, err := w.root.Lstat(path.Dir(top)); err == nil {
		first.dev = deviceOf(info)
	}
	pending := []*folder{first}
	for len(pending) > 0 {
		next := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		below, err := w.folder(next)
		next.from.release()
		if err != nil {
			for _, f := range pending {
				f.from.release()
			}
			return err
		}
		slices.Reverse(below)
		pending = append(pending, below...)
	}
	return nil
}

// folder searches the entries of a directory, and returns its subdirectories.
func (w *treeWalk) folder(f *folder) (below []*folder, err error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := f.from.root.OpenRoot(f.rel)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	here := &openDirectory{dir, 1}
	defer here.release()
	entries, dev, mount, err := w.enter(f, dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.installed(f.name, dir, entries), w.collection(f.name, dir, entries)); err != nil {
		return nil, err
	}
	for _, entry := range entries {
		at, change := w.below(f.placeOf, entry.Name())
		if !entry.IsDir() {
			if change.Removed {
				if info, err := dir.Lstat(entry.Name()); err == nil {
					w.names.lose(info, at)
				}
				continue
			}
			if err := w.entry(dir, entry, at, change.Content); err != nil {
				return below, err
			}
			continue
		}
		if at.broughtBy == "" && isImageStore(at.name[1:]) {
			if !w.All {
				w.report.skipImages(dir, entry.Name(), at.shown)
				continue
			}
			at.broughtBy = "a container image"
		}
		sub := &folder{placeOf: at, from: f.from, rel: path.Join(f.rel, entry.Name()), hops: f.hops + 1, dev: dev, mount: mount}
		if sub.hops == maxHop {
			sub.from, sub.rel, sub.hops = here, entry.Name(), 0
		}
		sub.from.uses++
		below = append(below, sub)
	}
	return below, nil
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// enter reads a directory, except mounts. A mount from elsewhere is not in the disk's copy. A bind mount of the same
// file system is searched at its own path, or is outside the tree.
func (w *treeWalk) enter(f *folder, dir *os.Root) (entries []fs.DirEntry, dev, mount uint64, err error) {
	list, err := dir.Open(".")
	if err != nil {
		return nil, 0, 0, err
	}
	defer list.Close()
	info, err := list.Stat()
	if err != nil {
		return nil, 0, 0, err
	}
	dev, mount = deviceOf(info), mountOf(list)
	part := dev != f.dev || f.mount == 0 || mount == 0 || mount == f.mount
	if dev != f.dev && f.rel != "." {
		if part, err = onDisk(list, f.dev); err != nil {
			return nil, 0, 0, err
		}
	}
	if !part {
		w.report.Mounts.add(f.shown)
		return nil, dev, mount, nil
	}
	w.attributes(list, f.placeOf)
	entries, err = list.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, dev, mount, err
}

// entry searches an entry that is not a directory. An edited content replaces the file's content.
func (w *treeWalk) entry(dir *os.Root, entry fs.DirEntry, at placeOf, edited []byte) error {
	if entry.Type()&fs.ModeSymlink != 0 {
		if target, err := dir.Readlink(entry.Name()); err == nil {
			w.short(target, at, "the target of a link")
			w.literal(target, at, "the target of a link")
		}
		return nil
	}
	if !entry.Type().IsRegular() {
		return nil
	}
	f, err := dir.OpenFile(entry.Name(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if absent(err) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	w.attributes(f, at)
	if edited != nil {
		w.names.lose(info, at)
	} else if w.Changed != nil {
		w.names.stay(info, at)
	}
	if len(w.Leftovers) > 0 && edited == nil {
		if was, is := w.Leftovers[inodeOf(info)]; is {
			w.place(at, secretHit{kind: Leftover, what: leftoverOf(was)})
		}
	}
	content := body{f, info.Size(), f}
	if edited != nil {
		content = body{bytes.NewReader(edited), int64(len(edited)), nil}
	}
	if content.size == 0 {
		w.report.Files++
		return nil
	}
	return w.file(content, at)
}

// place reports a finding at a place, outside of a file's content.
func (w *treeWalk) place(at placeOf, h secretHit) {
	owner := Owner{}
	if w.Owner != nil {
		owner = w.Owner(at.name)
	}
	w.addFinding(Finding{Path: at.shown, Kind: h.kind, What: h.what, SHA256: h.sum, Rule: owner.Rule, Kept: owner.Keeps}, h.key(), at.broughtBy)
}

// short searches a short text at a place that is not a file's content.
func (w *treeWalk) short(text string, at placeOf, where string) {
	w.scanShort(text, func(h secretHit) {
		h.what += " in " + where
		w.place(at, h)
	})
}

func (w *treeWalk) scanShort(text string, found func(secretHit)) {
	if len(text) < minShort {
		return
	}
	v := &window{data: []byte(text), to: len(text)}
	s := everything().sweep("", false, found)
	s.decoder = w.decoder("", int64(len(text)))
	s.window(v)
	s.finish()
	v.binaryKeys(false, found)
	if len(w.known.paths) > 0 {
		w.known.ids(v, found)
	}
}

// literal searches a name or the target of a link for the donor's values.
func (w *treeWalk) literal(text string, at placeOf, where string) {
	if at.broughtBy == "" && w.literals.watches(at.name) {
		w.literals.find(at.name, &window{data: []byte(text), to: len(text)}, func(h secretHit) {
			h.what += " in " + where
			w.place(at, h)
		})
	}
}

// minShort is the length in bytes of the shortest secret in names and attributes.
const minShort = 20

// below searches the name of an entry of a directory, and returns its place and what a run does to the entry. A name with a
// secret is not shown.
func (w *treeWalk) below(dir placeOf, name string) (at placeOf, change Change) {
	at = placeOf{name: strings.TrimSuffix(dir.name, "/") + "/" + name, shown: strings.TrimSuffix(dir.shown, "/") + "/" + name, broughtBy: dir.broughtBy}
	if w.Changed != nil {
		if change = w.Changed(at.name); change.Removed {
			return at, change
		}
		if change.Name != "" {
			name = path.Base(change.Name)
		}
	}
	var hits []secretHit
	w.scanShort(name, func(h secretHit) { hits = append(hits, h) })
	if len(hits) > 0 {
		at.shown = strings.TrimSuffix(dir.shown, "/") + "/" + w.masked(name)
	}
	for _, h := range hits {
		h.what += " in its name"
		w.place(at, h)
	}
	w.literal(name, at, "its name")
	return at, change
}

// masked returns a name without its long words.
func (w *treeWalk) masked(name string) string {
	masked := longWord().ReplaceAllString(name, "…")
	w.scanShort(masked, func(secretHit) { masked = "<a name that holds a secret>" })
	return masked
}

// longWord matches what may be a secret, or the ID of a machine.
var longWord = expression(`[A-Za-z0-9_+=-]{16,}`)

// linkedNames are the files with several names, if a run changes some: those that lose a name, and those that keep one.
type linkedNames struct {
	lost map[Inode]string
	kept map[Inode]placeOf
}

// lose records that a run removes or rewrites the name of a file.
func (n *linkedNames) lose(info fs.FileInfo, at placeOf) {
	if hasOtherNames(info) {
		n.lost[inodeOf(info)] = at.shown
	}
}

// stay records a name that a run does not change.
func (n *linkedNames) stay(info fs.FileInfo, at placeOf) {
	if hasOtherNames(info) {
		n.kept[inodeOf(info)] = at
	}
}

func hasOtherNames(info fs.FileInfo) bool {
	s, known := info.Sys().(*syscall.Stat_t)
	return known && s.Nlink > 1 && info.Mode().IsRegular() && info.Size() > 0
}

// leftovers reports the files that a run removes by one name, and leaves by another.
func (w *treeWalk) leftovers() {
	for inode, was := range w.names.lost {
		if at, stays := w.names.kept[inode]; stays {
			w.place(at, secretHit{kind: Leftover, what: leftoverOf(was)})
		}
	}
}

func leftoverOf(was string) string { return "another name (hard link) of " + was }

func deviceOf(info fs.FileInfo) uint64 { return inodeOf(info).Device }

func inodeOf(info fs.FileInfo) Inode {
	if s, is := info.Sys().(*syscall.Stat_t); is {
		return Inode{uint64(s.Dev), s.Ino} //nolint:unconvert // the width differs between systems
	}
	return Inode{}
}
