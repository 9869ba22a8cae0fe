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

// worthHoles is the file size in bytes from which searching for holes is cheaper than reading.
const worthHoles = 64 << 10

// extents calls visit for each part of a file with data. Holes of a sparse file (a disk image, /var/log/lastlog) then
// cost nothing. For small files, and without support for holes, the file is one part.
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

// onDisk reports whether a directory's file system is on the same disk as its parent, so that the disk's copy contains
// it. Source: linux/magic.h.
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
	a, b := diskOf(uint64(here.Dev)), diskOf(above) //nolint:unconvert // the width differs between systems
	return a == "" || b == "" || a == b, nil
}

// mountOf returns the ID of a directory's mount; 0 before Linux 5.8.
func mountOf(dir *os.File) uint64 {
	var s unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &s); err != nil || s.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return s.Mnt_id
}

// diskOf names the disk of a device or partition; empty if unknown, for example for a device made of several disks.
// Source: Linux, Documentation/ABI/stable/sysfs-block.
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

// attributes searches the extended attributes of a file or directory, except those of the kernel and its security
// modules.
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
