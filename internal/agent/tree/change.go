package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxDepth is the number of open directories during a removal. Deeper directories are first moved up, so that a tree of
// any depth needs a bounded number of file descriptors.
const maxDepth = 64

// Removed counts removed files.
type Removed struct {
	Files, Dirs int
	Bytes       int64
}

// Remove removes a path with everything below it; a missing path is no error. Paths for which keep returns true stay,
// with their parent directories. keep may be nil. Remove does not cross mounts.
func (t *Tree) Remove(p string, keep func(p string) bool) (Removed, error) {
	defer t.Pass()()
	r := remover{tree: t, keep: keep, top: p}
	if err := t.plain(p); err != nil {
		return r.Removed, err
	}
	defer t.drop(p)
	parent, err := near(t, path.Dir(p), (*os.Root).OpenRoot)
	if err != nil {
		return r.Removed, ignoreAbsent(err)
	}
	defer parent.Close()
	if _, err := r.entry(parent, path.Base(p), p, 0); err != nil {
		return r.Removed, err
	}
	return r.Removed, nil
}

type remover struct {
	Removed
	tree *Tree
	keep func(string) bool
	// top is the removed path. content opens top as root, and moves deep directories there.
	top   string
	root  *os.Root
	moved []string
	count int
}

// entry removes one name in dir, and reports whether something stays. p is for keep and errors.
func (r *remover) entry(dir *os.Root, name, p string, depth int) (kept bool, err error) {
	if r.keep != nil && r.keep(p) {
		return true, nil
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return false, ignoreAbsent(err)
	}
	if !info.IsDir() {
		if r.tree.running {
			free(dir, name, info)
		}
		if err := dir.Remove(name); err != nil {
			return false, ignoreAbsent(err)
		}
		r.tree.unlinked(p, info)
		r.Files++
		r.Bytes += info.Size()
		return false, nil
	}
	kept, err = r.content(dir, name, p, depth)
	if err != nil || kept {
		return kept, err
	}
	if err := dir.Remove(name); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			return false, fmt.Errorf("/%s: %w", p, ErrMounted)
		}
		return false, ignoreAbsent(err)
	}
	r.Dirs++
	return false, nil
}

// content removes the content of the directory name.
func (r *remover) content(dir *os.Root, name, p string, depth int) (kept bool, err error) {
	sub, err := openDir(dir, name)
	if err != nil {
		return false, fmt.Errorf("/%s: %w", p, err)
	}
	defer sub.Close()
	if err := sameMount(dir, sub); err != nil {
		return false, fmt.Errorf("/%s: %w", p, err)
	}
	names, err := r.namesIn(sub)
	if err != nil {
		return false, fmt.Errorf("/%s: %w", p, err)
	}
	if depth == 0 {
		r.root = sub
	}
	for _, child := range names {
		stays, err := r.child(sub, child, path.Join(p, child), depth+1)
		if err != nil {
			return false, err
		}
		kept = kept || stays
	}
	for depth == 0 && len(r.moved) > 0 {
		up := r.moved[0]
		r.moved = r.moved[1:]
		if _, err := r.entry(sub, up, path.Join(p, up), 1); err != nil {
			return false, err
		}
	}
	return kept, nil
}

// child removes one name. A directory too deep for keeping all parents open is moved up to the top and removed later.
// With keep nothing is moved.
func (r *remover) child(dir *os.Root, name, p string, depth int) (kept bool, err error) {
	if depth <= maxDepth || r.keep != nil {
		return r.entry(dir, name, p, depth)
	}
	info, err := dir.Lstat(name)
	if err != nil || !info.IsDir() {
		return r.entry(dir, name, p, depth)
	}
	r.count++
	up := fmt.Sprintf(".kamino-remove-%d", r.count)
	// A mount point cannot be renamed, so a move cannot move a mount.
	if err := r.root.Rename(strings.TrimPrefix(p, r.top+"/"), up); err != nil {
		return false, fmt.Errorf("/%s: %w", p, err)
	}
	r.moved = append(r.moved, up)
	return false, nil
}

// openDir opens a directory below dir. An unreadable directory is made readable first, because Kamino may run as the
// owner of a tree and not as root.
func openDir(dir *os.Root, name string) (*os.Root, error) {
	sub, err := dir.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) && dir.Chmod(name, 0o700) == nil {
		return dir.OpenRoot(name)
	}
	return sub, err
}

func (r *remover) namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if r.tree.running && r.keep == nil {
		dropAttributes(f)
	}
	return f.Readdirnames(-1)
}

// sameMount returns ErrMounted unless a directory and its parent are in one mount.
func sameMount(above, dir *os.Root) error {
	mounts := [2]mount{}
	for i, root := range []*os.Root{above, dir} {
		f, err := root.Open(".")
		if err != nil {
			return err
		}
		mounts[i], err = mountOf(f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if !mounts[0].same(mounts[1]) {
		return ErrMounted
	}
	return nil
}

// Replace replaces the content of a file atomically. An existing regular file passes on its mode, owner and extended
// attributes. A missing file gets the mode, and missing directories are created. Hard links keep the old content.
func (t *Tree) Replace(p string, content []byte, mode fs.FileMode) error {
	if err := t.plain(p); err != nil {
		return err
	}
	old, err := t.root.Lstat(p)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return fmt.Errorf("/%s is not a regular file", p)
	case err == nil:
		mode = old.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := t.makeDir(path.Dir(p)); err != nil {
		return err
	}
	temporary := path.Join(path.Dir(p), ".kamino-new-"+path.Base(p))
	if _, err := t.Remove(temporary, nil); err != nil {
		return err
	}
	if err := t.write(temporary, p, old, content, mode); err != nil {
		_, _ = t.Remove(temporary, nil)
		return fmt.Errorf("write /%s: %w", p, err)
	}
	if old == nil {
		t.label(temporary)
	}
	if err := t.root.Rename(temporary, p); err != nil {
		return err
	}
	if old != nil {
		t.unlinked(p, old)
	}
	return nil
}

// makeDir makes a directory with missing parents. New directories have the label of their parents.
func (t *Tree) makeDir(dir string) error {
	if _, err := t.root.Stat(dir); err == nil || dir == "." {
		return nil
	}
	if err := t.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	if err := t.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	t.label(dir)
	return nil
}

// label gives a new path the label of its directory.
func (t *Tree) label(p string) {
	if dir, err := t.root.OpenRoot(path.Dir(p)); err == nil {
		labelNew(dir, path.Base(p))
		dir.Close()
	}
}

func (t *Tree) write(temporary, p string, old fs.FileInfo, content []byte, mode fs.FileMode) error {
	f, err := t.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if old != nil {
		if err := t.inherit(p, old, f); err != nil {
			return err
		}
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	// After the chown, which clears set-user-ID. chmod also overrides the umask.
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

// inherit copies owner and extended attributes of the old file to the new file.
func (t *Tree) inherit(p string, old fs.FileInfo, f *os.File) error {
	if owner, ok := old.Sys().(*syscall.Stat_t); ok && (int(owner.Uid) != os.Geteuid() || int(owner.Gid) != os.Getegid()) {
		if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	from, err := t.root.Open(p)
	if err != nil {
		// An unreadable file cannot have been edited. The new file has the directory's default label.
		return nil
	}
	defer from.Close()
	return copyAttributes(from, f)
}

// Link makes a symbolic link. It replaces a file at the path, but not a directory.
func (t *Tree) Link(target, p string) error {
	if err := t.plain(p); err != nil {
		return err
	}
	if info, err := t.root.Lstat(p); err == nil {
		if info.IsDir() {
			return fmt.Errorf("/%s is a directory", p)
		}
		if err := t.root.Remove(p); err != nil {
			return err
		}
	}
	if err := t.makeDir(path.Dir(p)); err != nil {
		return err
	}
	if err := t.root.Symlink(target, p); err != nil {
		return err
	}
	t.label(p)
	return nil
}

// Readlink returns the target of a link.
func (t *Tree) Readlink(p string) (string, error) { return t.root.Readlink(p) }
