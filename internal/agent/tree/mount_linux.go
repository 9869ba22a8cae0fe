package tree

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount identifies the mount of a directory, with the kind of its file system.
type mount struct {
	// id is the mount ID; 0 before Linux 5.8.
	id           uint64
	major, minor uint32
	kind         int64
}

// same reports whether two directories are in one mount. Without mount IDs (before Linux 5.8) it compares device
// numbers, which are equal for a bind mount.
func (m mount) same(other mount) bool {
	if m.id != 0 && other.id != 0 {
		return m.id == other.id
	}
	return m.major == other.major && m.minor == other.minor
}

type class int

const (
	unknown class = iota
	onDisk
	elsewhere
)

// mountOf reads the mount ID (Linux 5.8 and later), because a bind mount has the device number of its source.
func mountOf(f *os.File) (mount, error) {
	fd := int(f.Fd())
	var s unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &s); err != nil {
		return mount{}, fmt.Errorf("look at the mount of %s: %w", f.Name(), err)
	}
	m := mount{major: s.Dev_major, minor: s.Dev_minor}
	if s.Mask&unix.STATX_MNT_ID != 0 {
		m.id = s.Mnt_id
	}
	var v unix.Statfs_t
	if err := unix.Fstatfs(fd, &v); err != nil {
		return mount{}, fmt.Errorf("look at the file system of %s: %w", f.Name(), err)
	}
	m.kind = v.Type
	return m, nil
}

// classify returns the class of a file system by magic number (linux/magic.h; ZFS and NTFS3 from their own headers).
func classify(kind int64) class {
	switch uint32(kind) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.MSDOS_SUPER_MAGIC, 0x2FC12FC1:
		return onDisk
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC,
		unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.NFS_SUPER_MAGIC,
		unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, unix.ISOFS_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC,
		unix.HUGETLBFS_MAGIC, unix.NSFS_MAGIC, unix.AUTOFS_SUPER_MAGIC:
		return elsewhere
	default:
		return unknown
	}
}
