package scan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// worthHoles is the size, in bytes, from which on a file is asked for its holes: to read less than that costs no more.
const worthHoles = 64 << 10

// extents calls visit for each part of a file that holds data, so that the holes of a sparse file (a disk
// image, /var/log/lastlog) cost nothing. Where holes cannot be told, or are not worth the question, the file is one part.
func extents(f *os.File, size int64, visit func(offset, length int64) error) error {
	if size <= worthHoles {
		return visit(0, size)
	}
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

// onDisk says whether a directory's file system lies on the disk of the one above it, so that it can be part
// of a copy. Source: linux/magic.h.
func onDisk(dir *os.File, above uint64) (bool, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		return false, err
	}
	switch uint32(s.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC:
	default:
		return false, nil
	}
	var here unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &here); err != nil {
		return false, err
	}
	a, b := diskOf(uint64(here.Dev)), diskOf(above) //nolint:unconvert // Its width differs between systems.
	return a == "" || b == "" || a == b, nil
}

// mountOf is the number of the mount that a directory was reached through; 0 where the kernel does not give it out
// (before Linux 5.8).
func mountOf(dir *os.File) uint64 {
	var s unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &s); err != nil || s.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return s.Mnt_id
}

// diskOf names the disk that a device is, or is a partition of; empty if that cannot be told, as of what is put
// together of several. Source: Linux, Documentation/ABI/stable/sysfs-block.
func diskOf(device uint64) string {
	link, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(device), unix.Minor(device)))
	if err != nil {
		return ""
	}
	_, name, found := strings.Cut(link, "/block/")
	name, _, _ = strings.Cut(name, "/")
	if !found || strings.HasPrefix(name, "dm-") || strings.HasPrefix(name, "md") {
		return ""
	}
	return name
}

// maxAttribute is the size of the largest extended attribute, in bytes. Source: Linux, XATTR_SIZE_MAX.
const maxAttribute = 64 << 10

// attributes looks through the extended attributes of a file or directory, but for those of the kernel and
// its security modules.
func (w *treeWalk) attributes(f *os.File, at placeOf) {
	var buffer [1 << 10]byte
	names := buffer[:]
	n, err := unix.Flistxattr(int(f.Fd()), names)
	if errors.Is(err, syscall.ERANGE) {
		names = make([]byte, maxAttribute)
		n, err = unix.Flistxattr(int(f.Fd()), names)
	}
	if err != nil || n == 0 {
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if strings.HasPrefix(name, "system.") || strings.HasPrefix(name, "security.") {
			continue
		}
		value := make([]byte, maxAttribute)
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if err == nil {
			w.short(name+"="+string(value[:n]), at, "an extended attribute")
		}
	}
}
