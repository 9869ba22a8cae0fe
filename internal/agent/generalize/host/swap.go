package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Swap partitions contain pages of memory, secrets included, and are copied with the disk. The first page is a header
// with the signature, and the UUID for fstab.
const (
	swapSignature    = "SWAPSPACE2" // the last bytes of the first page; source: Linux, include/linux/swap.h
	swapSignatureOld = "SWAP-SPACE"
	// zeroChunk is the number of bytes zeroed between two checks of the deadline.
	zeroChunk = 256 << 20
)

// wipeSwap fills all swap partitions of the machine with zeros, whether in use or not. A partition still in use cannot
// be opened, and is an error. Swap files are removed by a rule.
func (h *Host) wipeSwap(ctx context.Context, t *tree.Tree) error {
	devices, err := blockDevices(t)
	if err != nil {
		return fmt.Errorf("look for swap partitions: %w", err)
	}
	for _, device := range devices {
		is, err := isSwap(t, device)
		if err != nil {
			return fmt.Errorf("look whether /%s is a swap partition: %w", device, err)
		}
		if !is {
			continue
		}
		size, err := zeroSwap(ctx, t, device)
		if err != nil {
			return fmt.Errorf("wipe the swap partition /%s: %w", device, err)
		}
		h.logf("wiped the swap partition /%s (%d MiB)", device, size>>20)
	}
	return nil
}

// blockDevices lists the partitions and disks, as paths of the tree, except devices in memory and in files. A tree
// without the list is not a running machine.
func blockDevices(t *tree.Tree) ([]string, error) {
	list, err := readProcLong(t, "proc/partitions")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var devices []string
	for line := range strings.Lines(list) {
		// Columns: major minor #blocks name. The first line is a heading.
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] == "major" {
			continue
		}
		name := strings.ReplaceAll(fields[3], "!", "/")
		if inMemoryOrFile(name) {
			continue
		}
		devices = append(devices, "dev/"+name)
	}
	return devices, nil
}

func inMemoryOrFile(name string) bool {
	for _, prefix := range []string{"zram", "ram", "loop", "sr", "fd", "nbd", "rbd"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isSwap checks for the signature at the end of the first page, for every page size of Linux.
func isSwap(t *tree.Tree, device string) (bool, error) {
	f, err := t.OpenFile(device, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENXIO), noMedium(err):
		return false, nil // the name has no device
	case err != nil:
		return false, err
	}
	defer f.Close()
	for page := int64(4 << 10); page <= 64<<10; page *= 2 {
		found := make([]byte, len(swapSignature))
		if _, err := f.ReadAt(found, page-int64(len(found))); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if string(found) == swapSignature || string(found) == swapSignatureOld {
			return true, nil
		}
	}
	return false, nil
}

// zeroSwap zeroes the swap partition of a device, which nothing may use.
func zeroSwap(ctx context.Context, t *tree.Tree, device string) (int64, error) {
	// O_EXCL fails on a mounted device or an active swap device.
	f, err := t.OpenFile(device, os.O_RDWR|syscall.O_EXCL|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.EBUSY) {
		return 0, errors.New("the partition is in use: no unit could be stopped")
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return ZeroSwap(ctx, f)
}

// ZeroSwap zeroes an open swap partition from its second page on, and returns its size in bytes.
func ZeroSwap(ctx context.Context, f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for from := int64(os.Getpagesize()); from < size; from += zeroChunk {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		length := min(zeroChunk, size-from)
		if zeroOut(f, from, length) == nil {
			continue
		}
		if err := writeZeros(f, from, length); err != nil {
			return 0, err
		}
	}
	return size, f.Sync()
}

func writeZeros(f *os.File, from, length int64) error {
	zeros := make([]byte, 1<<20)
	for length > 0 {
		n, err := f.WriteAt(zeros[:min(length, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from, length = from+int64(n), length-int64(n)
	}
	return nil
}
