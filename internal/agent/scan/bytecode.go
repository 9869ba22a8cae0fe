package scan

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// byteCode reports whether a file is Python's byte code of an unchanged package module, by time and size of the source in the
// header. Packages have no checksums of byte code, and byte code has only texts of its source. Source: PEP 552, PEP 3147.
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
		return false, nil // the target of a link is checked at its own path
	}
	if err != nil {
		return false, err
	}
	f, err := w.root.Open(source)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if binary.LittleEndian.Uint32(head[4:]) == 0 && // validated by time and size, not by a hash
		(binary.LittleEndian.Uint32(head[8:]) != uint32(info.ModTime().Unix()) || binary.LittleEndian.Uint32(head[12:]) != uint32(info.Size())) { //nolint:gosec // the format has 32 bits for each
		return false, nil
	}
	_, unchanged, err := w.packages.owns(source, f)
	return unchanged, err
}
