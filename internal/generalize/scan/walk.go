package scan

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// treeWalk goes through a tree. Each directory is opened from one that is a bounded number of levels above
// it and held open, so that a file costs the same however deep it lies.
type treeWalk struct {
	*scanner
	ctx     context.Context
	root    *os.Root
	unknown directories
}

// maxHop is how many levels lie between a directory and the one that it is opened from.
const maxHop = 32

// held is a directory that is open for as long as something below it is still to be looked at.
type held struct {
	*os.Root
	uses int
}

func (h *held) release() {
	if h.uses--; h.uses == 0 {
		h.Close()
	}
}

// placeOf is where something is.
type placeOf struct {
	// name is its path of the machine; shown is the same without what a report must not hold.
	name, shown string
	// broughtBy says who brought what is there; empty if nobody is known.
	broughtBy string
}

// folder is a directory that is still to be looked at.
type folder struct {
	placeOf
	from *held
	rel  string
	hops int
	dev  uint64
	// mount is the number of the mount that the directory above was reached through, 0 if it is not known.
	mount uint64
}

// walk goes through a directory and everything below it.
func (w *treeWalk) walk(top string) error {
	root, err := w.root.OpenRoot(".")
	if err != nil {
		return err
	}
	first := &folder{placeOf: placeOf{name: "/" + strings.TrimPrefix(top, "."), shown: "/" + strings.TrimPrefix(top, ".")}, from: &held{root, 1}, rel: top}
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

// folder looks at what is in a directory, and returns the directories in it.
func (w *treeWalk) folder(f *folder) (below []*folder, err error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := f.from.OpenRoot(f.rel)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	here := &held{dir, 1}
	defer here.release()
	entries, dev, mount, err := w.enter(f, dir)
	if err != nil {
		return nil, err
	}
	w.names(f, entries)
	for _, entry := range entries {
		at := w.below(f.placeOf, entry.Name())
		if !entry.IsDir() {
			if err := w.entry(dir, entry, at); err != nil {
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

// enter reads a directory, unless it is mounted from elsewhere, which no copy of the disk has, or from the same file
// system, which shows what is looked at where it is, or what is not of this tree.
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

// entry looks at what is no directory.
func (w *treeWalk) entry(dir *os.Root, entry fs.DirEntry, at placeOf) error {
	if entry.Type()&fs.ModeSymlink != 0 {
		if target, err := dir.Readlink(entry.Name()); err == nil {
			w.short(target, at, "the target of a link")
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
	if len(w.Leftovers) > 0 {
		if was, is := w.Leftovers[inodeOf(info)]; is {
			w.place(at, hit{kind: Leftover, what: "another name (hard link) of " + was})
		}
	}
	if info.Size() == 0 {
		w.report.Files++
		return nil
	}
	return w.file(f, at, info.Size())
}

// place reports what was found at a place, and not in the content of a file.
func (w *treeWalk) place(at placeOf, h hit) {
	owner := Owner{}
	if w.Owner != nil {
		owner = w.Owner(at.name)
	}
	w.give(Finding{Path: at.shown, Kind: h.kind, What: h.what, SHA256: h.sum, Rule: owner.Rule, Kept: owner.Keeps}, h.key(), at.broughtBy)
}

// short looks through a short text that belongs to a place and is not the content of a file.
func (w *treeWalk) short(text string, at placeOf, where string) {
	w.scanShort(text, func(h hit) {
		h.what += " in " + where
		w.place(at, h)
	})
}

func (w *treeWalk) scanShort(text string, found func(hit)) {
	if len(text) < minShort {
		return
	}
	v := &window{data: []byte(text), to: len(text)}
	s := everything().sweep(false, found)
	s.decoder = w.decoder(int64(len(text)))
	s.window(v)
	s.finish()
	v.binaryKeys(false, found)
	if len(w.known.paths) > 0 {
		w.known.ids(v, found)
	}
}

// minShort is the length of the shortest secret, in bytes, that is looked for in names and attributes.
const minShort = 20

// names looks through the names in a directory, all at once.
func (w *treeWalk) names(f *folder, entries []fs.DirEntry) {
	var all strings.Builder
	for _, entry := range entries {
		if len(entry.Name()) >= minShort {
			all.WriteString(entry.Name())
			all.WriteByte('\n')
		}
	}
	if all.Len() == 0 {
		return
	}
	w.short(all.String(), f.placeOf, "the name of something in it")
}

// below is the place of a name in a directory. A name with a secret is not shown.
func (w *treeWalk) below(dir placeOf, name string) placeOf {
	at := placeOf{name: strings.TrimSuffix(dir.name, "/") + "/" + name, shown: strings.TrimSuffix(dir.shown, "/") + "/" + name, broughtBy: dir.broughtBy}
	if len(name) >= minShort {
		w.scanShort(name, func(hit) { at.shown = strings.TrimSuffix(dir.shown, "/") + "/<a name that holds a secret>" })
	}
	return at
}

func deviceOf(info fs.FileInfo) uint64 { return inodeOf(info).Device }

func inodeOf(info fs.FileInfo) Inode {
	if s, is := info.Sys().(*syscall.Stat_t); is {
		return Inode{uint64(s.Dev), s.Ino} //nolint:unconvert // Its width differs between systems.
	}
	return Inode{}
}
