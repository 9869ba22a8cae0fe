package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// releasePreallocated has ext4 give up what it has set aside for writers: two MiB for each processor's small
// files, of blocks that may just have been freed. A trim passes over them, and they are kept for as long as
// the file system is mounted. Only when there is nothing else left does ext4 take them back, so for a moment a
// file without a name takes all that is free: its blocks are not written, and if this process ends they
// are free again. Everything on the machine is stopped by now. Sources: Linux, fs/ext4/mballoc.c;
// Documentation/ABI/testing/sysfs-fs-ext4.
func (h *Host) releasePreallocated(t *tree.Tree, root *os.File, m tree.MountPoint) error {
	if m.Kind != "ext4" {
		return nil
	}
	restore, err := spendReserved(t, m.Device)
	if err != nil {
		return err
	}
	return errors.Join(fill(root), restore())
}

// spendReserved lets ext4 give out the blocks that it keeps for its own use, which would be left over
// otherwise, and be those that were set aside. It returns how to have them kept again.
func spendReserved(t *tree.Tree, device string) (restore func() error, err error) {
	name, err := os.Readlink("/sys/dev/block/" + device)
	if err != nil {
		return nil, err
	}
	for _, sys := range []string{filepath.Join(t.Dir(), "sys"), "/sys"} {
		setting := filepath.Join(sys, "fs/ext4", filepath.Base(name), "reserved_clusters")
		var was []byte
		if was, err = os.ReadFile(setting); err != nil {
			continue
		}
		if err = os.WriteFile(setting, []byte("0"), 0); err == nil {
			return func() error { return os.WriteFile(setting, []byte(strings.TrimSpace(string(was))), 0) }, nil
		}
	}
	return nil, err
}

// fill takes all free space of a file system, and gives it back.
func fill(root *os.File) error {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(root.Fd())), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("make a file without a name: %w", err)
	}
	// A piece that is too large is made smaller, so that the last block is reached.
	var at int64
	for length := int64(1) << 40; length >= 4<<10; {
		err = unix.Fallocate(fd, 0, at, length)
		switch {
		case err == nil:
			at += length
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EFBIG):
			length /= 2
		case !errors.Is(err, unix.EINTR):
			return errors.Join(fmt.Errorf("take what is free: %w", err), unix.Close(fd))
		}
	}
	return unix.Close(fd)
}
