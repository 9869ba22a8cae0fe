package scan

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// byteCode says whether a file is what Python made of a module that came unchanged from a package: on each machine
// anew, so that no package has a checksum of it. It repeats the texts of its source, which is known. The head of such
// a file names the time and the size of its source; one that was made of another source is no such file. Source: PEP
// 552 and PEP 3147.
func (w *treeWalk) byteCode(name string, content io.Reader) (bool, error) {
	dir, file := path.Split(name)
	module, _, found := strings.Cut(file, ".")
	if !found || path.Base(dir) != "__pycache__" || path.Ext(file) != ".pyc" {
		return false, nil
	}
	source := path.Join(dir, "..", module+".py")
	var head [16]byte
	if _, err := io.ReadFull(content, head[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		return false, err
	}
	source = strings.TrimPrefix(source, "/")
	info, err := w.root.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false, nil // a link's file is known where it is, and its byte code is not
	}
	if err != nil {
		return false, err
	}
	f, err := w.root.Open(source)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if binary.LittleEndian.Uint32(head[4:]) == 0 && // by time and size, not by a hash
		(binary.LittleEndian.Uint32(head[8:]) != uint32(info.ModTime().Unix()) || binary.LittleEndian.Uint32(head[12:]) != uint32(info.Size())) { //nolint:gosec // The format has 32 bits of each.
		return false, nil
	}
	_, unchanged, err := w.packages.owns(source, f)
	return unchanged, err
}
