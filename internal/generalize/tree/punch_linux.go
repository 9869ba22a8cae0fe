package tree

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// punch frees the blocks of a file that is about to lose its only name. A process may hold the file open: then its
// blocks would stay in use, and in every copy of the disk. The size stays, because a process may have mapped the file.
//
// Not all file systems can punch holes, so errors are ignored.
func punch(dir *os.Root, name string, info fs.FileInfo) {
	s, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.Mode().IsRegular() || s.Nlink != 1 || s.Blocks == 0 {
		return
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info.Size() > 0 {
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, info.Size())
	}
	// Blocks beyond the end are preallocated, and may hold deleted data. A truncation to the same size frees them.
	_ = f.Truncate(info.Size())
}
