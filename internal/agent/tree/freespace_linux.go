package tree

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Room returns the free space on a directory's file system. For root it includes the reserved space.
func (t *Tree) Room(dir string) (FreeSpace, error) {
	f, err := t.root.Open(dir)
	if err != nil {
		return FreeSpace{}, err
	}
	defer f.Close()
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return FreeSpace{}, fmt.Errorf("look at the file system of /%s: %w", dir, err)
	}
	free := FreeSpace{Bytes: s.Bavail * uint64(s.Bsize), Files: s.Ffree} //nolint:gosec // the kernel's block size is positive
	if os.Geteuid() == 0 {
		free.Bytes = s.Bfree * uint64(s.Bsize) //nolint:gosec // the kernel's block size is positive
	}
	// btrfs and others create inodes on demand, and report none.
	if s.Files == 0 {
		free.Files = math.MaxUint64
	}
	return free, nil
}
