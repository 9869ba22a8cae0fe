package tree

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
)

// MaxFile is the size of the largest file for Read and Replace, in bytes. Kamino edits settings of a few kilobytes. A
// larger file is not such a file.
const MaxFile = 4 << 20

// maxLinks is the number of links in a path before it counts as a loop, as in the kernel.
const maxLinks = 40

// ErrMounted is returned if a directory to be removed or searched is a mount.
var ErrMounted = errors.New("another file system is mounted there")

// ErrLink is returned if a path leads through a symbolic link.
var ErrLink = errors.New("the path leads through a symbolic link, and Kamino follows no links")

// Tree is an open directory tree. Paths are relative to its root, slash-separated and clean; "." is the root.
type Tree struct {
	root *os.Root
	dir  string
	// top is the root for system calls, and mount its mount.
	top   *os.File
	mount mount
	// byName is true if the kernel cannot look up a path in one call.
	byName bool
	// running is true for the running machine's tree.
	running bool
	// mounts is true if the mounts below the root belong to the machine.
	mounts bool
	// linked are files that lost a name but have other names, with the lost name.
	linked map[Inode]string
	// passes is the number of active passes, held their open directories from the top down, and asked their lookups.
	passes int
	held   []openDirectory
	asked  int
}

// Inode identifies a file regardless of its names.
type Inode struct{ Device, Number uint64 }

// Linked returns the files with a removed or rewritten name and other remaining names: the removed content is still on
// the disk. Each file has its first lost name.
func (t *Tree) Linked() map[Inode]string { return t.linked }

// unlinked records a file that has just lost a name.
func (t *Tree) unlinked(p string, info fs.FileInfo) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	inode := Inode{uint64(s.Dev), s.Ino} //nolint:unconvert // the width differs between systems
	if s.Nlink <= 1 {
		// The inode number may be reused from now on.
		delete(t.linked, inode)
		return
	}
	if t.linked == nil {
		t.linked = map[Inode]string{}
	}
	if t.linked[inode] == "" {
		t.linked[inode] = "/" + p
	}
}

// MountPoint is a mount.
type MountPoint struct {
	// Device is the number major:minor.
	Device string
	// Dir is the mount point, Kind the type of the file system, and Source its source.
	Dir, Kind, Source string
}

// Open opens the tree at dir as a plain directory. Mounts below are foreign: they are neither read nor changed.
func Open(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the root directory %s: %w", dir, err)
	}
	t := &Tree{root: root, dir: dir}
	if t.top, err = root.Open("."); err == nil {
		t.mount, err = mountOf(t.top)
	}
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

// OpenRunning opens the root of a running machine. Mounted file systems on its disks belong to the tree.
func OpenRunning(dir string) (*Tree, error) {
	t, err := OpenMounted(dir)
	if err == nil {
		t.running = true
	}
	return t, err
}

// OpenMounted opens the root of a machine that does not run, with all its file systems mounted by the caller. They belong
// to the tree as on a running machine.
func OpenMounted(dir string) (*Tree, error) {
	t, err := Open(dir)
	if err == nil {
		t.mounts = true
	}
	return t, err
}

// Close releases the tree.
func (t *Tree) Close() error {
	_ = t.top.Close()
	return t.root.Close()
}

// Dir returns the directory of the tree.
func (t *Tree) Dir() string { return t.dir }

// Running reports whether the tree is a running machine's root.
func (t *Tree) Running() bool { return t.running }

// OwnsMounts reports whether the mounts below the root belong to a tree.
func OwnsMounts(t *Tree) bool { return t.mounts }

// Rel turns an absolute path of the machine into a path of the tree.
func Rel(absolute string) string {
	rel := strings.TrimPrefix(path.Clean("/"+absolute), "/")
	if rel == "" {
		return "."
	}
	return rel
}

// Lstat describes the path without following links.
func (t *Tree) Lstat(p string) (fs.FileInfo, error) { return near(t, p, (*os.Root).Lstat) }

// OpenFile opens a path. Links are followed as by os.Root, never out of the tree.
func (t *Tree) OpenFile(p string, flag int, mode fs.FileMode) (*os.File, error) {
	return near(t, p, func(from *os.Root, way string) (*os.File, error) { return from.OpenFile(way, flag, mode) })
}

// Mkdir makes a directory with missing parents.
func (t *Tree) Mkdir(p string, mode fs.FileMode) error { return t.root.MkdirAll(p, mode) }

// Resolve follows links with the tree as the root, and returns a path without links. A loop or a dangling link returns
// fs.ErrNotExist.
func (t *Tree) Resolve(p string) (string, fs.FileInfo, error) {
	defer t.Pass()()
	pending := components(p)
	real, links := ".", 0
	for len(pending) > 0 {
		part := pending[0]
		pending = pending[1:]
		if part == ".." {
			real = path.Dir(real)
			continue
		}
		next := path.Join(real, part)
		info, err := near(t, next, (*os.Root).Lstat)
		if err != nil {
			return "", nil, absent(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fs.ErrNotExist
		}
		target, err := near(t, next, (*os.Root).Readlink)
		if err != nil {
			return "", nil, err
		}
		if strings.HasPrefix(target, "/") {
			real = "."
		}
		pending = append(components(target), pending...)
	}
	info, err := near(t, real, (*os.Root).Lstat)
	return real, info, err
}

// components splits a path. It keeps "..", whose meaning depends on links, and drops ".".
func components(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(part string) bool { return part == "" || part == "." })
}

// absent turns ENOTDIR into fs.ErrNotExist: there is nothing below a file.
func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	return err
}

// CheckPath returns why a file at a path could not be changed, or made: a link or a file is above it.
func CheckPath(t *Tree, p string) error { return t.plain(p) }

// plain returns an error unless a path may be changed: clean, below the root, without links above and, except on a
// running machine, without mounts. Missing directories are allowed.
func (t *Tree) plain(p string) error {
	if err := below(p); err != nil {
		return err
	}
	defer t.Pass()()
	dir := path.Dir(p)
	if err := t.unmounted(dir); err != nil {
		return err
	}
	// No link leads to an open directory.
	for _, above, _ := t.nearest(p); dir != "." && dir != above; dir = path.Dir(dir) {
		info, err := near(t, dir, (*os.Root).Lstat)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("/%s: %w", dir, ErrLink)
		case err == nil && !info.IsDir():
			return fmt.Errorf("/%s is not a directory", dir)
		case err != nil && escapes(err):
			// os.Root's refusal of an absolute link above. The loop reaches and names the link.
		case err != nil && !errors.Is(absent(err), fs.ErrNotExist):
			return err
		}
	}
	return nil
}

func below(p string) error {
	if p == "." || strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.HasPrefix(p+"/", "../") {
		return fmt.Errorf("%q is not a clean path below the root", p)
	}
	return nil
}

// escapes reports whether the error is os.Root's refusal, which has no errno.
func escapes(err error) bool {
	var errno syscall.Errno
	return !errors.As(err, &errno)
}

// Read returns the content of a regular file. Links are followed as by Resolve.
func (t *Tree) Read(p string) ([]byte, error) {
	real, info, err := t.Resolve(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("/%s is not a regular file", p)
	}
	if info.Size() > MaxFile {
		return nil, fmt.Errorf("/%s has %d bytes, and at most %d are read", p, info.Size(), MaxFile)
	}
	// O_NONBLOCK: a FIFO created meanwhile must not block.
	f, err := t.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile))
}

// List returns the entries of a directory, sorted by name.
func (t *Tree) List(dir string) ([]fs.DirEntry, error) {
	f, err := near(t, dir, (*os.Root).Open)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// unmounted returns ErrMounted if the existing part of a directory's path crosses a mount. The machine's own mounts are
// allowed.
func (t *Tree) unmounted(dir string) error {
	if t.mounts {
		return nil
	}
	for at := dir; at != "."; at = path.Dir(at) {
		here, err := t.mountAt(at)
		switch {
		case err == nil && !here.same(t.mount):
			return fmt.Errorf("/%s: %w", at, ErrMounted)
		case err == nil:
			return nil
		case !escapes(err) && !errors.Is(absent(err), fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// enter returns the mount of a directory whose content is on the machine's disks; nil for tmpfs or NFS. An unknown kind of
// file system is an error; so is any mount that does not belong to the tree. above is the parent's mount; nil if unknown.
func (t *Tree) enter(above *mount, parent, dir string) (*mount, error) {
	if above == nil {
		read, err := t.mountAt(parent)
		if err != nil {
			return nil, err
		}
		above = &read
	}
	here, err := t.mountAt(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case here.same(*above):
		return &here, nil
	case !t.mounts:
		return nil, fmt.Errorf("/%s: %w", dir, ErrMounted)
	case here.kind == above.kind:
		return &here, nil
	}
	switch classify(here.kind) {
	case onDisk:
		return &here, nil
	case elsewhere:
		return nil, nil
	default:
		return nil, fmt.Errorf("/%s: the mounted file system (type %#x) may not be on this machine's disk", dir, here.kind)
	}
}

// OnDisk reports whether a directory is on the machine's disks, as enter does for each directory above.
func (t *Tree) OnDisk(dir string) (bool, error) {
	defer t.Pass()()
	parent, above := ".", (*mount)(nil)
	for _, part := range components(dir) {
		below := path.Join(parent, part)
		here, err := t.enter(above, parent, below)
		if err != nil || here == nil {
			return false, ignoreAbsent(err)
		}
		parent, above = below, here
	}
	return true, nil
}

func (t *Tree) mountAt(dir string) (mount, error) {
	if dir == "." {
		return t.mount, nil
	}
	f, err := near(t, dir, (*os.Root).Open)
	if err != nil {
		return mount{}, err
	}
	defer f.Close()
	return mountOf(f)
}
