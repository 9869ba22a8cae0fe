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

// MaxFile is the largest file, in bytes, that Read and Replace handle. What Kamino reads and edits are
// settings of a few kilobytes; anything larger is not the file it is taken for.
const MaxFile = 4 << 20

// maxLinks is how many links a path may lead through before it counts as a loop, as in the kernel.
const maxLinks = 40

// ErrMounted says that something is mounted where a directory was to be removed or looked into.
var ErrMounted = errors.New("another file system is mounted there")

// ErrLink says that a path leads through a symbolic link, which is not followed.
var ErrLink = errors.New("the path leads through a symbolic link, which is not followed")

// Tree is an open directory tree. Paths are relative to its root, slash-separated and clean; "." is the root.
type Tree struct {
	root *os.Root
	dir  string
	// running tells that the tree is the running machine's own, so that what is mounted in it is the machine's too.
	running bool
	// linked are files that lost a name and have others, with that name.
	linked map[Inode]string
	// passes are under way, held is what they hold open, from the top down, and asked is what they cost.
	passes int
	held   []held
	asked  int
}

// Inode is a file, whatever its names are.
type Inode struct{ Device, Number uint64 }

// Linked are the files of which a name was removed, or given other content, and that have other names still:
// what was to go is on the disk. Each comes with the first name that it lost.
func (t *Tree) Linked() map[Inode]string { return t.linked }

// unlinked takes note of a file that has just lost a name.
func (t *Tree) unlinked(p string, info fs.FileInfo) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	inode := Inode{uint64(s.Dev), s.Ino} //nolint:unconvert // Its width differs between systems.
	if s.Nlink <= 1 {
		// Its number may be another file's from now on.
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

// MountPoint is something that is mounted.
type MountPoint struct {
	// Device is its number, as major:minor.
	Device string
	// Dir is where it is mounted; Kind is the type of its file system and Source what that is made from.
	Dir, Kind, Source string
}

// Open opens the tree at dir as what it is, a directory: what is mounted below it belongs to whoever mounted it,
// and is neither looked into nor changed.
func Open(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the root directory %s: %w", dir, err)
	}
	return &Tree{root: root, dir: dir}, nil
}

// OpenRunning opens the root of a running machine. File systems of its disks that are mounted below are part of it.
func OpenRunning(dir string) (*Tree, error) {
	t, err := Open(dir)
	if err == nil {
		t.running = true
	}
	return t, err
}

// Close releases the tree.
func (t *Tree) Close() error { return t.root.Close() }

// Dir is the directory that the tree was opened at.
func (t *Tree) Dir() string { return t.dir }

// Running says whether the tree is the root of a running machine, with what is mounted there.
func (t *Tree) Running() bool { return t.running }

// Rel turns an absolute path of the machine into a path of the tree.
func Rel(absolute string) string {
	rel := strings.TrimPrefix(path.Clean("/"+absolute), "/")
	if rel == "" {
		return "."
	}
	return rel
}

// Lstat describes what is at the path, links not followed.
func (t *Tree) Lstat(p string) (fs.FileInfo, error) { return near(t, p, (*os.Root).Lstat) }

// OpenFile opens a path of the tree. Links are followed as os.Root does, so never out of it.
func (t *Tree) OpenFile(p string, flag int, mode fs.FileMode) (*os.File, error) {
	return near(t, p, func(from *os.Root, way string) (*os.File, error) { return from.OpenFile(way, flag, mode) })
}

// Mkdir makes a directory and what is missing above it.
func (t *Tree) Mkdir(p string, mode fs.FileMode) error { return t.root.MkdirAll(p, mode) }

// Resolve follows links the way the machine would, with the tree as the root, and returns a path without
// links. A loop or a dangling link is fs.ErrNotExist: nothing can be reached there.
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

// components splits a path, keeping ".." (whose meaning depends on links before it) and dropping ".".
func components(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(part string) bool { return part == "" || part == "." })
}

// absent turns "a component is not a directory" into "does not exist": there is nothing below a file.
func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	return err
}

// plain returns an error unless a path is one that may be changed: a clean path below the root with no
// link above it and, unless the machine is running, no mount. Directories that do not exist are fine.
func (t *Tree) plain(p string) error {
	if err := below(p); err != nil {
		return err
	}
	defer t.Pass()()
	dir := path.Dir(p)
	if err := t.unmounted(dir); err != nil {
		return err
	}
	// What is held is a directory that no link leads to.
	for _, above, _ := t.nearest(p); dir != "." && dir != above; dir = path.Dir(dir) {
		info, err := near(t, dir, (*os.Root).Lstat)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("/%s: %w", dir, ErrLink)
		case err == nil && !info.IsDir():
			return fmt.Errorf("/%s is not a directory", dir)
		case err != nil && escapes(err):
			// os.Root's answer to an absolute link above; the loop gets to it and names it.
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

// escapes tells os.Root's refusal from an answer of the system: the refusal carries no errno.
func escapes(err error) bool {
	var errno syscall.Errno
	return !errors.As(err, &errno)
}

// Read returns the content of a regular file, links followed as by Resolve.
func (t *Tree) Read(p string) ([]byte, error) {
	real, info, err := t.Resolve(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("/%s is not a regular file", p)
	}
	if info.Size() > MaxFile {
		return nil, fmt.Errorf("/%s has %d bytes, more than the %d that are read", p, info.Size(), MaxFile)
	}
	// A FIFO that was put there since must not hang us.
	f, err := t.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile))
}

// List returns the names in a directory, sorted.
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

// unmounted returns ErrMounted if a directory, or the part of it that exists, lies behind a mount. What is mounted
// in a running machine is its own.
func (t *Tree) unmounted(dir string) error {
	if t.running {
		return nil
	}
	root, err := t.mountAt(".")
	if err != nil {
		return err
	}
	for at := dir; at != "."; at = path.Dir(at) {
		here, err := t.mountAt(at)
		switch {
		case err == nil && !here.same(root):
			return fmt.Errorf("/%s: %w", at, ErrMounted)
		case err == nil:
			return nil
		case !escapes(err) && !errors.Is(absent(err), fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// enter says whether a directory's content is part of the machine's disks. It is not where a file system
// without a disk of this machine is mounted (tmpfs, NFS, …): nothing of that is in a copy of the disk, and
// removing what others share would hurt them. An unknown kind of file system is an error, and so is anything that is
// mounted in a tree that is not a running machine's: it may be anybody's.
func (t *Tree) enter(parent, dir string) (bool, error) {
	above, err := t.mountAt(parent)
	if err != nil {
		return false, err
	}
	here, err := t.mountAt(dir)
	if err != nil {
		return false, err
	}
	switch {
	case here.same(above):
		return true, nil
	case !t.running:
		return false, fmt.Errorf("/%s: %w", dir, ErrMounted)
	case here.kind == above.kind:
		return true, nil
	}
	switch classify(here.kind) {
	case onDisk:
		return true, nil
	case elsewhere:
		return false, nil
	default:
		return false, fmt.Errorf("/%s: cannot tell whether the file system mounted there (type %#x) is on this machine's disk", dir, here.kind)
	}
}

func (t *Tree) mountAt(dir string) (mount, error) {
	f, err := near(t, dir, (*os.Root).Open)
	if err != nil {
		return mount{}, err
	}
	defer f.Close()
	return mountOf(f)
}
