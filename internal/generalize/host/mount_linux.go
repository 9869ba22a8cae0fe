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

	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// mountsBelow returns what is mounted at or below the root, as this process sees it.
var mountsBelow = tree.MountsBelow

// ownLayer is the directory on the host in which this process's own container writes, empty if it runs in
// none. It is mounted, so that emptying it is not up to anybody; it holds no more than places to mount to.
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

// detach unmounts what pods have mounted below the kubelet's directory, deepest first, where this process
// sees it. In a pod that is a copy of the host's mounts: it only has to let go of them so that their
// directories can be removed, upon which the kernel lets go of the host's own (since Linux 3.18, "lazily
// unmount on unlink"). What stays mounted is never removed through; the rule is then not met.
func (h *Host) detach(t *tree.Tree) {
	mounts, err := mountsBelow(t.Dir())
	if err != nil {
		h.say("look for volumes: %v", err)
		return
	}
	for _, m := range slices.Backward(mounts) {
		if !strings.HasPrefix(m.Dir, "/var/lib/kubelet/pods/") && !strings.HasPrefix(m.Dir, "/var/lib/kubelet/plugins/") {
			continue
		}
		if err := unix.Unmount(filepath.Join(t.Dir(), m.Dir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			h.say("detach %s: %v", m.Dir, err)
		}
	}
}

// ownFileSystem says whether the root is where a file system is mounted. A directory of a larger file
// system is a sandbox's or a test's, and what is around it is none of our business.
func ownFileSystem(t *tree.Tree) bool {
	mounts, err := mountsBelow(t.Dir())
	return err == nil && slices.ContainsFunc(mounts, func(m tree.MountPoint) bool { return m.Dir == "/" })
}

// openBelow returns the root's own file system without what is mounted on it. It is nil where the root is
// no file system of its own, and where the kernel cannot show it (before Linux 5.2).
func (h *Host) openBelow(t *tree.Tree) (below *generalize.Below, release func(), err error) {
	if !ownFileSystem(t) {
		return nil, func() {}, nil
	}
	mounts, err := mountsBelow(t.Dir())
	if err != nil {
		return nil, nil, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, t.Dir(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		h.say("what mounts hide is not seen: %v", err)
		return nil, func() {}, nil
	}
	root := os.NewFile(uintptr(fd), "root")
	clone, err := tree.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		_ = root.Close()
		return nil, nil, fmt.Errorf("open the root without its mounts: %w", err)
	}
	below = &generalize.Below{Tree: clone}
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

// zeroOut has the kernel fill a range of a block device with zeros, which many disks do by themselves.
func zeroOut(f *os.File, from, length int64) error {
	span := [2]uint64{uint64(from), uint64(length)} //nolint:gosec // neither is negative
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), blkZeroOut, uintptr(unsafe.Pointer(&span))); errno != 0 {
		return errno
	}
	return nil
}

// noMedium says that a drive is empty.
func noMedium(err error) bool { return errors.Is(err, unix.ENOMEDIUM) }

// fitrim is FITRIM of linux/fs.h, _IOWR('X', 121, struct fstrim_range), where the direction has the two
// uppermost bits (all architectures that Kamino is built for).
const fitrim = 0xC0185879

// fstrimRange is struct fstrim_range of linux/fs.h.
type fstrimRange struct{ start, length, minLength uint64 }

// flush brings everything to the disk and gives freed blocks back, for what was deleted stays readable in
// them. Trimming works where file system and disk know it; elsewhere it is said and left. The kernel
// trims only blocks whose release is on the disk, so it syncs first.
func (h *Host) flush(t *tree.Tree) error {
	if !ownFileSystem(t) {
		return nil
	}
	mounts, err := mountsBelow(t.Dir())
	if err != nil {
		return err
	}
	h.forgetUnlinked(t)
	done := map[string]bool{}
	for _, m := range mounts {
		// What is still mounted below the kubelet is a volume's disk, not the machine's.
		if !strings.HasPrefix(m.Source, "/dev/") || done[m.Device] || strings.HasPrefix(m.Dir, "/var/lib/kubelet/") {
			continue
		}
		done[m.Device] = true
		if err := h.flushMount(t, m); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) flushMount(t *tree.Tree, m tree.MountPoint) error {
	f, err := os.Open(filepath.Join(t.Dir(), m.Dir))
	if err != nil {
		h.say("%s is not trimmed: %v", m.Dir, err)
		return nil
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system at %s: %w", m.Dir, err)
	}
	if err := h.releasePreallocated(t, f, m); err != nil {
		h.say("%s: up to 2 MiB per processor that were set aside for writers may not be trimmed: %v", m.Dir, err)
	} else if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system at %s: %w", m.Dir, err)
	}
	trimmed := fstrimRange{length: ^uint64(0)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&trimmed)))
	if errno != 0 {
		h.say("%s (%s) cannot be trimmed, so what was deleted may still be read from free blocks: %v", m.Dir, m.Kind, errno)
		return nil
	}
	h.say("trimmed %s: %d bytes were free", m.Dir, trimmed.length)
	return nil
}
