package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// free frees blocks and attributes of a file that loses its only name: an open file keeps blocks, and the table of inodes keeps
// attributes. The size stays for processes with a mapping. Errors are ignored: not all file systems punch holes.
func free(dir *os.Root, name string, info fs.FileInfo) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.Mode().IsRegular() || s.Nlink != 1 {
		return
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	dropAttributes(f)
	if s.Blocks > 0 {
		_ = Empty(f, info.Size())
	}
}

// Empty frees the blocks of a file. The size stays.
func Empty(f *os.File, size int64) error {
	if size > 0 {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size); err != nil {
			return err
		}
	}
	// Blocks beyond the end are preallocated, and may hold deleted data. A truncation to the same size frees them.
	return f.Truncate(size)
}

// FreePreallocated frees the blocks of files that were reserved and never written (fallocate). They read as zeros, but
// the disk still has deleted data there. FreePreallocated returns the number of freed bytes.
func (t *Tree) FreePreallocated(ctx context.Context) (freed int64, err error) {
	top, err := t.root.Open(".")
	if err != nil {
		return 0, err
	}
	defer top.Close()
	here, err := mountOf(top)
	if err != nil {
		return 0, err
	}
	p := preallocated{ctx: ctx, mounts: t.mounts}
	err = p.dir(top, here, 0)
	return p.freed, err
}

// preallocated is one pass over all files. It opens each file from its directory, which costs four calls of the kernel.
type preallocated struct {
	ctx    context.Context
	mounts bool
	freed  int64
}

// maxOpen is the number of levels with an open directory. Files below are left as they are.
const maxOpen = 256

func (p *preallocated) dir(dir *os.File, here mount, depth int) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return ignoreAbsent(err)
	}
	for _, entry := range entries {
		switch {
		case entry.Type().IsRegular():
			err = p.file(dir, entry.Name())
		case entry.IsDir() && depth < maxOpen:
			err = p.below(dir, entry.Name(), here, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below enters a directory on the machine's disks, as Tree.enter does.
func (p *preallocated) below(dir *os.File, name string, above mount, depth int) error {
	sub, err := openAt(dir, name, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil //nolint:nilerr // the search reports a directory that cannot be read
	}
	defer sub.Close()
	here, err := mountOf(sub)
	if err != nil {
		return err
	}
	if !here.same(above) && (!p.mounts || here.major == above.major && here.minor == above.minor || classify(here.kind) != onDisk) {
		return nil
	}
	return p.dir(sub, here, depth+1)
}

func openAt(dir *os.File, name string, flag int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flag|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

// file frees the unwritten blocks of a file, unless the kernel refuses the change: of a running program, an immutable
// file, or swap space in use.
func (p *preallocated) file(dir *os.File, name string) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // the search reports a file that cannot be read
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Blocks == 0 {
		return err
	}
	// Both are holes for SEEK_HOLE: unallocated and unwritten parts. A file without either needs no look at its extents.
	hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	if err != nil || hole >= s.Size && s.Blocks*512 <= roundUp(s.Size, s.Blksize) {
		return nil //nolint:nilerr // the file system knows no holes
	}
	parts, err := unwritten(fd)
	if err != nil || len(parts) == 0 {
		return err
	}
	w, err := openAt(dir, name, os.O_WRONLY)
	if err == nil {
		defer w.Close()
		err = errors.Join(p.punch(w, parts, s.Size), keepTimes(w, &s))
	}
	for _, refused := range []error{unix.ETXTBSY, unix.EPERM, unix.EROFS, unix.ENOENT, unix.EOPNOTSUPP} {
		if errors.Is(err, refused) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("free the unwritten blocks of %s: %w", name, err)
	}
	return nil
}

func (p *preallocated) punch(w *os.File, parts []part, size int64) error {
	for _, part := range parts {
		if part.from < size {
			if err := unix.Fallocate(int(w.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, part.from, part.length); err != nil {
				return err
			}
		}
		p.freed += part.length
	}
	// A truncation to the same size frees the blocks beyond the end.
	return w.Truncate(size)
}

// keepTimes sets the times of a file again, whose content has not changed.
func keepTimes(f *os.File, s *unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), []unix.Timespec{s.Atim, s.Mtim}, 0)
}

// roundUp returns the number of bytes of a file's blocks.
func roundUp(size, block int64) int64 { return (size + block - 1) / max(block, 1) * max(block, 1) }

type part struct{ from, length int64 }

// Source: Linux, include/uapi/linux/fiemap.h and fs.h: FS_IOC_FIEMAP is _IOWR('f', 11, struct fiemap).
const (
	fsIocFiemap           = 0xC020660B
	fiemapFlagSync        = 0x1
	fiemapExtentLast      = 0x1
	fiemapExtentUnwritten = 0x800
)

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

type fiemap struct {
	start, length        uint64
	flags, mapped, count uint32
	_                    uint32
	extents              [64]fiemapExtent
}

// unwritten returns the unwritten extents of a file; none if the file system does not list extents.
func unwritten(fd int) (parts []part, err error) {
	m := fiemap{length: ^uint64(0), flags: fiemapFlagSync, count: uint32(len(fiemap{}.extents))}
	for {
		m.mapped = 0
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsIocFiemap, uintptr(unsafe.Pointer(&m))); errno != 0 {
			if errors.Is(errno, unix.ENOTTY) || errors.Is(errno, unix.EOPNOTSUPP) {
				return nil, nil
			}
			return nil, errno
		}
		for _, e := range m.extents[:m.mapped] {
			if e.flags&fiemapExtentUnwritten != 0 {
				parts = append(parts, part{int64(e.logical), int64(e.length)}) //nolint:gosec // offsets of a file
			}
		}
		if m.mapped == 0 || m.extents[m.mapped-1].flags&fiemapExtentLast != 0 {
			return parts, nil
		}
		last := m.extents[m.mapped-1]
		m.start = last.logical + last.length
		m.length = ^uint64(0) - m.start
	}
}

// dropAttributes removes the attributes that people and their tools set.
func dropAttributes(f *os.File) {
	for _, name := range attributes(f) {
		if strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") {
			_ = unix.Fremovexattr(int(f.Fd()), name)
		}
	}
}
