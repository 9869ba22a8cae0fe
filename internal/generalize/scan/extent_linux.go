package scan

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// extents calls visit for each part of a file that holds data, so that the holes of a sparse file (a disk
// image, /var/log/lastlog) cost nothing. Where holes cannot be told, the file is one part.
func extents(f *os.File, size int64, visit func(offset, length int64) error) error {
	for at := int64(0); at < size; {
		begin, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, syscall.ENXIO):
			return nil
		case err != nil:
			return visit(at, size-at)
		}
		end, err := unix.Seek(int(f.Fd()), begin, unix.SEEK_HOLE)
		if err != nil || end <= begin {
			return visit(begin, size-begin)
		}
		if err := visit(begin, end-begin); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// onDisk says whether a directory's file system lies on a disk of this machine, so that it can be part of
// a copy. Source: linux/magic.h.
func onDisk(dir *os.File) (bool, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		return false, err
	}
	switch uint32(s.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC:
		return true, nil
	default:
		return false, nil
	}
}
