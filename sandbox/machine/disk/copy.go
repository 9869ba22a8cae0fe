package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// volatile directories are file systems of the running machine, not parts of its disk.
var volatile = map[string]bool{"run": true, "proc": true, "sys": true, "dev": true}

// Copy replaces dst by a copy of the tree src, without hard links, and with empty volatile directories. The copy of a running machine's
// disk holds what the machine has flushed. The copy gets its name when
// complete: a crash leaves a name with a leading dot (see Sweep). Vanishing files are missing, as on a real disk.
func Copy(dst, src string) error {
	if _, err := os.Stat(src); err != nil {
		return fmt.Errorf("copy disk: there is no disk at %s: %w", src, err)
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dst), ".copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	fresh := filepath.Join(temporary, "new")
	if err := copyTree(fresh, src); err != nil {
		return fmt.Errorf("copy disk %s to %s: %w", src, dst, err)
	}
	return Replace(dst, fresh, filepath.Join(temporary, "old"))
}

// Replace moves the tree fresh to dst, and the old tree to aside, which must not exist.
func Replace(dst, fresh, aside string) error {
	if err := os.Rename(dst, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(fresh, dst)
}

// Sweep removes leftovers of interrupted copies in a directory of disks.
func Sweep(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(dir, ".copy-*"))
	if err != nil {
		return err
	}
	for _, path := range leftovers {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

func copyTree(dst, src string) error {
	flushed, err := readFlushed(src)
	if err != nil {
		return err
	}
	type dirMode struct {
		path string
		mode fs.FileMode
	}
	var dirs []dirMode
	walk := func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		target := filepath.Join(dst, relative)
		if !entry.IsDir() {
			whole, zeros := flushed.has(relative, info)
			if info.Mode().IsRegular() && !whole {
				return errors.Join(os.WriteFile(target, make([]byte, zeros), 0o600), os.Chmod(target, info.Mode()))
			}
			return copyFile(target, path, info)
		}
		// Writable until filled; the final mode comes last.
		dirs = append(dirs, dirMode{target, info.Mode()})
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if volatile[relative] {
			return filepath.SkipDir
		}
		return nil
	}
	if err := filepath.WalkDir(src, walk); err != nil {
		return err
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := os.Chmod(dirs[i].path, dirs[i].mode); err != nil {
			return err
		}
	}
	return nil
}

// copyData copies the parts of a file with data. Holes stay holes, so that a full disk costs no space on the host.
func copyData(out, in *os.File, size int64) error {
	if err := out.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		start, err := in.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // no data up to the end
		}
		if err != nil {
			return err
		}
		if at, err = in.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		for _, file := range []*os.File{in, out} {
			if _, err := file.Seek(start, io.SeekStart); err != nil {
				return err
			}
		}
		if _, err := io.CopyN(out, in, at-start); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// copyFile copies a regular file or a symbolic link. Sockets, pipes and devices are no content of a disk.
func copyFile(dst, src string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	case !info.Mode().IsRegular():
		return nil
	}
	in, err := os.Open(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is && stat.Blocks*512 < info.Size() {
		err = copyData(out, in, info.Size())
	} else {
		// Between two files, io.Copy uses copy_file_range, which shares blocks if the file system can.
		_, err = io.Copy(out, in)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return errors.Join(os.Chmod(dst, info.Mode()), os.Chtimes(dst, info.ModTime(), info.ModTime()))
}
