package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// zeroChunk is the size of one read or write of free space, in bytes.
const zeroChunk = 1 << 20

// extent is a part of a partition, in bytes.
type extent struct{ from, length int64 }

// freeExtents returns the free blocks of a mounted file system, as the kernel lists them. dir is its open directory. Source: Linux,
// include/uapi/linux/fsmap.h: FS_IOC_GETFSMAP is _IOWR('X', 59, struct fsmap_head).
func freeExtents(dir *os.File) (free []extent, err error) {
	const (
		getFSMap     = 0xC0C0583B
		specialOwner = 0x10
		last         = 0x20
		ownerFree    = 1
	)
	var head fsmapHead
	head.count = uint32(len(head.records))
	head.keys[1] = fsmap{device: ^uint32(0), flags: ^uint32(0), physical: ^uint64(0), owner: ^uint64(0), offset: ^uint64(0)}
	for {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), getFSMap, uintptr(unsafe.Pointer(&head))); errno != 0 {
			return nil, fmt.Errorf("list the free blocks: %w", errno)
		}
		for _, r := range head.records[:head.entries] {
			if r.flags&specialOwner != 0 && r.owner == ownerFree {
				free = append(free, extent{int64(r.physical), int64(r.length)}) //nolint:gosec // offsets of a device
			}
		}
		if head.entries == 0 || head.records[head.entries-1].flags&last != 0 {
			return free, nil
		}
		head.keys[0] = head.records[head.entries-1]
	}
}

type fsmap struct {
	device, flags                   uint32
	physical, owner, offset, length uint64
	_                               [3]uint64
}

type fsmapHead struct {
	_, _, count, entries uint32
	_                    [6]uint64
	keys                 [2]fsmap
	records              [1024]fsmap
}

// zeroFree writes zeros over free blocks that hold data: not every disk can trim, and a trimmed block need not read as zeros. f is the
// unmounted partition. Blocks of zeros are only read, so that a snapshot does not grow.
func zeroFree(ctx context.Context, f *os.File, free []extent) (zeroed int64, err error) {
	buffer, zeros := make([]byte, zeroChunk), make([]byte, zeroChunk)
	for _, e := range free {
		for done := int64(0); done < e.length; done += zeroChunk {
			if err := ctx.Err(); err != nil {
				return zeroed, err
			}
			n := min(zeroChunk, e.length-done)
			if _, err := f.ReadAt(buffer[:n], e.from+done); err != nil {
				return zeroed, err
			}
			if bytes.Equal(buffer[:n], zeros[:n]) {
				continue
			}
			if _, err := f.WriteAt(zeros[:n], e.from+done); err != nil {
				return zeroed, err
			}
			zeroed += n
		}
	}
	return zeroed, f.Sync()
}

// zeroName is the file that takes the free space of FAT for a moment.
const zeroName = "kamino.tmp"

// zeroFAT fills the free space of FAT with zeros. FAT has neither unnamed files nor unwritten blocks, and an ESP is small.
func zeroFAT(ctx context.Context, dir *os.File) error {
	_ = unix.Unlinkat(int(dir.Fd()), zeroName, 0) // of a run that was ended
	fd, err := unix.Openat(int(dir.Fd()), zeroName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("fill the free space of FAT: %w", err)
	}
	f := os.NewFile(uintptr(fd), zeroName)
	zeros := make([]byte, zeroChunk)
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = f.Write(zeros)
		}
	}
	// A file on FAT has 4 GiB at most.
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EFBIG) {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), unix.Unlinkat(int(dir.Fd()), zeroName, 0))
}
