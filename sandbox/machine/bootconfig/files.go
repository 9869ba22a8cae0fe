package bootconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// files are the files of a disk. Paths are those on the node, and links stay on the disk.
type files struct{ root string }

// maxLinks is the kernel's limit of links in a path. Source: path_resolution(7).
const maxLinks = 40

// resolve returns the path on the host.
func (f files) resolve(path string) (string, error) {
	rest, at := parts(path), "/"
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(f.root, next))
		if err != nil {
			at = next // no link, or a missing file that the caller reports
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		rest, at = append(parts(target), rest...), "/"
	}
	return filepath.Join(f.root, at), nil
}

func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(filepath.Clean("/"+path), "/"), func(part string) bool { return part == "" })
}

// read reads a file. Its errors name the path on the node.
func (f files) read(path string) ([]byte, error) {
	at, err := f.resolve(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(at)
	var failure *fs.PathError
	if errors.As(err, &failure) {
		failure.Path = path
	}
	return text, err
}

// text is the content of a file; empty if the file is not readable.
func (f files) text(path string) string {
	text, _ := f.read(path)
	return string(text)
}

func (f files) exists(path string) bool {
	at, err := f.resolve(path)
	if err != nil {
		return false
	}
	_, err = os.Stat(at)
	return err == nil
}

// list returns the paths of a directory's files with one of the endings, or all, in the order of their names.
func (f files) list(dir string, endings ...string) []string {
	at, err := f.resolve(dir)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir(at)
	var paths []string
	for _, entry := range entries {
		if len(endings) == 0 || slices.Contains(endings, filepath.Ext(entry.Name())) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths
}

// masked: systemd does not start the unit. Source: systemctl(1).
func (f files) masked(unit string) bool { return disk.Masked(f.root, unit) }
