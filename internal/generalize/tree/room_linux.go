package tree

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Room says what is free on the file system of a directory. Root may use what is reserved.
func (t *Tree) Room(dir string) (Room, error) {
	f, err := t.root.Open(dir)
	if err != nil {
		return Room{}, err
	}
	defer f.Close()
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return Room{}, fmt.Errorf("look at the file system of /%s: %w", dir, err)
	}
	free := Room{Bytes: s.Bavail * uint64(s.Bsize), Files: s.Ffree} //nolint:gosec // the kernel's block size is positive
	if os.Geteuid() == 0 {
		free.Bytes = s.Bfree * uint64(s.Bsize) //nolint:gosec // the kernel's block size is positive
	}
	// btrfs and others make inodes as they need them, and tell of none at all.
	if s.Files == 0 {
		free.Files = math.MaxUint64
	}
	return free, nil
}
