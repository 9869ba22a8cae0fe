package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// mountsBelow returns the mounts at or below the root in this process's mount namespace.
var mountsBelow = tree.MountsBelow

// ownLayer returns the host directory with the writable layer of this process's container; empty outside a container.
// The layer is mounted and cannot be emptied. It contains only mount points.
func ownLayer() string {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if m, ok := tree.ParseMount(line); !ok || m.Dir != "/" || m.Kind != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), ",") {
			if dir, found := strings.CutPrefix(option, "upperdir="); found {
				return tree.Unescape(dir)
			}
		}
	}
	return ""
}

// detach unmounts this mount namespace's copies of the pods' mounts below the kubelet's directory, deepest first. The kernel
// unmounts the host's mounts when their directories are removed (Linux 3.18). Nothing is removed through a mount.
func (h *Host) detach(t *tree.Tree) {
	mounts, err := mountsBelow(t.Dir())
	if err != nil {
		h.logf("look for volumes: %v", err)
		return
	}
	for _, m := range slices.Backward(mounts) {
		if !strings.HasPrefix(m.Dir, "/var/lib/kubelet/pods/") && !strings.HasPrefix(m.Dir, "/var/lib/kubelet/plugins/") {
			continue
		}
		if err := unix.Unmount(filepath.Join(t.Dir(), m.Dir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			h.logf("detach %s: %v", m.Dir, err)
		}
	}
}

// ownFileSystem reports whether the root is a mount point. A plain directory belongs to a sandbox or a test, and the
// surrounding file system must not be touched.
func ownFileSystem(t *tree.Tree) bool {
	mounts, err := mountsBelow(t.Dir())
	return err == nil && slices.ContainsFunc(mounts, func(m tree.MountPoint) bool { return m.Dir == "/" })
}

// OpenBelow returns the root's file system without mounts. The result is nil if the root is a plain directory, or
// before Linux 5.2.
func OpenBelow(t *tree.Tree, logf func(format string, args ...any)) (below *generalize.HiddenFiles, release func(), err error) {
	if !ownFileSystem(t) {
		return nil, func() {}, nil
	}
	mounts, err := mountsBelow(t.Dir())
	if err != nil {
		return nil, nil, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, t.Dir(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		logf("files below mounts are not visible: %v", err)
		return nil, func() {}, nil
	}
	root := os.NewFile(uintptr(fd), "root")
	clone, err := tree.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		_ = root.Close()
		return nil, nil, fmt.Errorf("open the root without its mounts: %w", err)
	}
	below = &generalize.HiddenFiles{Tree: clone}
	for _, m := range mounts {
		if m.Dir != "/" && !slices.Contains(below.Points, m.Dir) {
			below.Points = append(below.Points, m.Dir)
		}
	}
	return below, func() { _, _ = clone.Close(), root.Close() }, nil
}

func readOnly(t *tree.Tree) bool {
	var s unix.Statfs_t
	return unix.Statfs(t.Dir(), &s) == nil && s.Flags&unix.ST_RDONLY != 0
}

// blkZeroOut is BLKZEROOUT of linux/fs.h, _IO(0x12, 127).
const blkZeroOut = 0x127f

// zeroOut lets the kernel zero a range of a block device. Many disks do so without data transfer.
func zeroOut(f *os.File, from, length int64) error {
	span := [2]uint64{uint64(from), uint64(length)} //nolint:gosec // neither is negative
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), blkZeroOut, uintptr(unsafe.Pointer(&span))); errno != 0 {
		return errno
	}
	return nil
}

// noMedium reports whether a drive is empty.
func noMedium(err error) bool { return errors.Is(err, unix.ENOMEDIUM) }

// fitrim is FITRIM of linux/fs.h, _IOWR('X', 121, struct fstrim_range), on architectures with the direction in the two
// highest bits: all architectures of Kamino.
const fitrim = 0xC0185879

// fstrimRange is struct fstrim_range of linux/fs.h.
type fstrimRange struct{ start, length, minLength uint64 }

// flush syncs the disk and trims freed blocks, because deleted data stays readable there. The kernel trims only blocks whose
// release is on the disk, so the sync is first. A disk without trim is only logged.
func (h *Host) flush(t *tree.Tree) error {
	if !ownFileSystem(t) {
		return nil
	}
	mounts, err := mountsBelow(t.Dir())
	if err != nil {
		return err
	}
	done, disks := map[string]bool{}, map[uint64]bool{}
	// A remaining mount below the kubelet's directory is a volume's disk.
	mounts = slices.DeleteFunc(mounts, func(m tree.MountPoint) bool {
		return !strings.HasPrefix(m.Source, "/dev/") || strings.HasPrefix(m.Dir, "/var/lib/kubelet/")
	})
	for _, m := range mounts {
		var s unix.Stat_t
		if err := unix.Stat(filepath.Join(t.Dir(), m.Dir), &s); err == nil {
			disks[s.Dev] = true
		}
	}
	if err := h.emptyUnlinked(t, disks); err != nil {
		return err
	}
	h.forgetUnlinked(t)
	for _, m := range mounts {
		if done[m.Device] {
			continue
		}
		done[m.Device] = true
		f, err := os.Open(filepath.Join(t.Dir(), m.Dir))
		if err != nil {
			h.logf("%s is not trimmed: %v", m.Dir, err)
			continue
		}
		err = errors.Join(Flush(filepath.Join(t.Dir(), "sys"), f, m, h.logf), f.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// Flush syncs a mounted file system, and trims its free blocks. f is its open directory, and sys a directory of sysfs. A device
// without trim is only logged.
func Flush(sys string, f *os.File, m tree.MountPoint, logf func(format string, args ...any)) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system at %s: %w", m.Dir, err)
	}
	if err := releasePreallocated(sys, f, m); err != nil {
		logf("%s: up to 2 MiB per processor, reserved for writers, may not be trimmed: %v", m.Dir, err)
	} else if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system at %s: %w", m.Dir, err)
	}
	if err := clearJournal(f, m); err != nil {
		logf("%s: the journal of the file system may still name deleted files: %v", m.Dir, err)
	}
	trimmed := fstrimRange{length: ^uint64(0)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&trimmed)))
	if errno != 0 {
		logf("%s (%s) cannot be trimmed, and deleted data may remain in free blocks: %v", m.Dir, m.Kind, errno)
		return nil
	}
	logf("trimmed %s: %d bytes were free", m.Dir, trimmed.length)
	return nil
}

// ext4Checkpoint is EXT4_IOC_CHECKPOINT of linux/ext4.h, _IOW('f', 43, __u32), and ext4ZeroOut its flag to write zeros.
const (
	ext4Checkpoint = 0x4004662B
	ext4ZeroOut    = 0x2
)

// clearJournal writes zeros over the journal of ext4, after its content is at its place. The journal keeps names and
// attributes of deleted files, and with data=journal their content. It needs Linux 5.15.
func clearJournal(f *os.File, m tree.MountPoint) error {
	if m.Kind != "ext4" {
		return nil
	}
	flags := uint32(ext4ZeroOut)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ext4Checkpoint, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	return nil
}
