package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// releasePreallocated makes ext4 release blocks reserved for small files, which may contain freed data and which trim skips. An
// unnamed file takes all free space for a moment, because ext4 releases the blocks only then. Source: Linux, fs/ext4/mballoc.c;
// Documentation/ABI/testing/sysfs-fs-ext4.
func releasePreallocated(sys string, root *os.File, m tree.MountPoint) error {
	if m.Kind != "ext4" {
		return nil
	}
	restore, err := spendReserved(sys, m.Device)
	if err != nil {
		return err
	}
	return errors.Join(fill(root), restore())
}

// spendReserved lets ext4 use the blocks reserved for its own use, so that no preallocated block remains. restore sets
// the reservation again.
func spendReserved(sys, device string) (restore func() error, err error) {
	name, err := os.Readlink("/sys/dev/block/" + device)
	if err != nil {
		return nil, err
	}
	for _, sys := range []string{sys, "/sys"} {
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

// fill takes all free space of a file system and releases it.
func fill(root *os.File) error {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(root.Fd())), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("make a file without a name: %w", err)
	}
	// A failing length is halved until the last block is reached.
	var at int64
	for length := int64(1) << 40; length >= 4<<10; {
		err = unix.Fallocate(fd, 0, at, length)
		switch {
		case err == nil:
			at += length
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EFBIG):
			length /= 2
		case !errors.Is(err, unix.EINTR):
			return errors.Join(fmt.Errorf("fill the free space: %w", err), unix.Close(fd))
		}
	}
	return unix.Close(fd)
}
