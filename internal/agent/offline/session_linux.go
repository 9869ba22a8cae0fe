package offline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
)

// session are the mounts of one device, in a directory of their own.
type session struct {
	*device
	dir string
	// mounted are the mounted partitions, the outer ones first.
	mounted []mountPlan
}

// mountFlags forbid devices, set-user-ID programs and programs of the copy.
const mountFlags = unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC

// mountOptions by kind. The superblock of ext4 could ask for a panic at an error, and a copy has the UUID of another XFS. Sources:
// Linux, Documentation/admin-guide/ext4.rst and xfs.rst.
var mountOptions = map[Kind]string{ext4: "errors=remount-ro", xfs: "nouuid", vfat: "errors=remount-ro"}

// begin prepares the directory. It is a file system in memory, so that nothing stays on the machine.
func (d *device) begin(dir string) (*session, error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	if above, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid())); err != nil || above == own {
		return nil, errors.New("the program has no mount namespace of its own, and mounts nothing")
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0700,size=1m"); err != nil {
		return nil, refusef("file systems cannot be mounted here: %v. Run the command as root, or in a privileged pod", err)
	}
	return &session{device: d, dir: dir}, nil
}

// root is the directory of the copy's root.
func (s *session) root() string { return filepath.Join(s.dir, "root") }

// at is the directory of a mount.
func (s *session) at(m mountPlan) string { return filepath.Join(s.root(), m.Dir) }

// node makes a device file for a partition. A number cannot be exchanged for another device, as a name in /dev can.
func (s *session) node(p Partition) (string, error) {
	number, err := s.partitionNumber(p)
	if err != nil {
		return "", err
	}
	name := filepath.Join(s.dir, fmt.Sprintf("partition-%d", p.Number))
	if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(number)); err != nil && !errors.Is(err, unix.EEXIST) {
		return "", fmt.Errorf("make a device file: %w", err)
	}
	return name, nil
}

// mount mounts a partition at a directory, and replays its journal.
func (s *session) mount(p Partition, at, shown string, flags uintptr) error {
	node, err := s.node(p)
	if err != nil {
		return err
	}
	if p.Kind == vfat && flags&unix.MS_RDONLY == 0 {
		if err := markUnmounted(node); err != nil {
			return fmt.Errorf("clear the mark of a mounted FAT on %s: %w", p.name(), err)
		}
	}
	if err := unix.Mount(node, at, string(p.Kind), mountFlags|flags, mountOptions[p.Kind]); err != nil {
		return discardf(Unsupported, "%s (%s) cannot be mounted at %s: %v. Look at the kernel's log, and take a fresh copy", p.name(), p.Kind,
			generalize.Printable(shown), err)
	}
	s.mounted = append(s.mounted, mountPlan{p, shown})
	return nil
}

// markUnmounted clears the mark of a mounted FAT.
func markUnmounted(node string) error {
	f, err := os.OpenFile(node, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return err
	}
	return errors.Join(clearDirty(f), f.Close())
}

// mountRoot mounts the root. flags are added to mountFlags.
func (s *session) mountRoot(p Partition, flags uintptr) error {
	if err := os.Mkdir(s.root(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return s.mount(p, s.root(), "/", flags)
}

// mountBelow mounts the other file systems of the copy. A mount point must be a directory of the copy, reached without a link.
func (s *session) mountBelow(plans []mountPlan, flags uintptr) error {
	for _, plan := range plans {
		root, err := unix.Open(s.root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		at, err := unix.Openat2(root, strings.TrimPrefix(plan.Dir, "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		unix.Close(root)
		if err != nil {
			return discardf(Unsupported,
				"/etc/fstab of the copy mounts %s at %s, which is not a directory, or is behind a link: %v. Correct the path on the donor",
				plan.name(), generalize.Printable(plan.Dir), err)
		}
		err = s.mount(plan.Partition, fmt.Sprintf("/proc/self/fd/%d", at), plan.Dir, flags)
		unix.Close(at)
		if err != nil {
			return err
		}
	}
	return nil
}

// end unmounts everything, the inner file systems first. A file system that cannot be unmounted is an error; the kernel unmounts
// it with the end of the program.
func (s *session) end() (err error) {
	defer func() { s.mounted = nil }()
	for _, m := range slices.Backward(s.mounted) {
		if failed := unix.Unmount(s.at(m), unix.UMOUNT_NOFOLLOW); failed != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", m.name(), failed))
		}
	}
	return err
}

// close removes the directory's content. Device files are in memory only.
func (s *session) close() error { return unix.Unmount(s.dir, unix.MNT_DETACH) }
