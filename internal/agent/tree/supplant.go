package tree

import (
	"fmt"
	"os"
	"syscall"
)

// Supplant atomically replaces a file by another file. The new file gets the old mode, owner and label, and is synced
// before the rename, so that a crash leaves one of the two.
func (t *Tree) Supplant(p, by string) error {
	if err := t.plain(p); err != nil {
		return err
	}
	if err := t.plain(by); err != nil {
		return err
	}
	old, err := t.root.Lstat(p)
	if err != nil {
		return err
	}
	if !old.Mode().IsRegular() {
		return fmt.Errorf("/%s is not a regular file", p)
	}
	f, err := t.root.OpenFile(by, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.inherit(p, old, f); err != nil {
		return err
	}
	if err := f.Chmod(old.Mode().Perm()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return t.root.Rename(by, p)
}
