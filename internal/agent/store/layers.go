package store

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/kamino-dev/kamino/internal/wording"
)

// sizes compares the files of a layer with their sizes in the archive. After a power loss the journal preserves names, but not
// content. A missing name proves nothing: an archive may lead through a link of a lower layer.
type sizes struct {
	store  Store
	dir    string
	differ map[string]int64
}

// file compares a file. After an unclean stop, same compares the content as well.
func (z *sizes) file(name string, size int64, same func(io.Reader) (bool, error)) error {
	name = path.Clean("/" + name)[1:]
	if name == "" {
		return nil
	}
	// In an archive with duplicate names the last entry is valid.
	delete(z.differ, name)
	if size == 0 {
		return nil
	}
	info, err := z.store.tree.Lstat(z.dir + "/" + name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		// The archive's own path contains no link out of the tree.
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return err
		}
		return nil
	}
	if info.Size() == size {
		if !z.store.unclean {
			return nil
		}
		f, err := z.store.tree.OpenFile(z.dir+"/"+name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if is, err := same(bufio.NewReaderSize(f, 1<<17)); is || err != nil {
			return err
		}
	}
	z.differ[name] = size
	return nil
}

// isEqual compares two streams of equal length.
func isEqual(a io.Reader, b io.Reader) (bool, error) {
	var ofA, ofB [1 << 15]byte
	for {
		n, err := io.ReadFull(a, ofA[:])
		if _, err := io.ReadFull(b, ofB[:n]); err != nil || !bytes.Equal(ofA[:n], ofB[:n]) {
			return false, nil
		}
		if err != nil { // the end
			return true, nil
		}
	}
}

func (z *sizes) why() string {
	if len(z.differ) == 0 {
		return ""
	}
	names := make([]string, 0, len(z.differ))
	for name := range z.differ {
		names = append(names, name)
	}
	first := slices.Min(names)
	now := int64(0)
	if info, err := z.store.tree.Lstat(z.dir + "/" + first); err == nil {
		now = info.Size()
	}
	if now == z.differ[first] {
		return fmt.Sprintf("a cached image is damaged: since a stop without a shutdown, /%s/%s has another content than after the pull (%s); "+
			"remove the image, and pull the image again", z.dir, first, wording.Count(len(names), "file"))
	}
	return fmt.Sprintf("a cached image is damaged: /%s/%s has %d bytes, and had %d after the pull (%s); remove the image, and pull the image again",
		z.dir, first, now, z.differ[first], wording.Count(len(names), "file"))
}

// splitDiffers compares a layer with the record of its archive by Docker or containers/storage: one JSON line per file.
// A layer without a record was built here and not pulled. Source: github.com/vbatts/tar-split, entries of type 1.
func (s Store) splitDiffers(split, layer string) (string, error) {
	f, err := s.tree.OpenFile(split, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return fmt.Sprintf("a cached image is damaged: /%s: %v", split, err), nil
	}
	dir := layer + "/diff"
	if _, err := s.tree.Lstat(dir); err != nil {
		dir = layer // for the driver vfs
	}
	z := sizes{store: s, dir: dir, differ: map[string]int64{}}
	for entries := json.NewDecoder(unpacked); ; {
		var entry struct {
			Type int    `json:"type"`
			Name string `json:"name"`
			Size int64  `json:"size"`
			// Sum is the CRC-64 of the content.
			Sum []byte `json:"payload"`
		}
		err := entries.Decode(&entry)
		if errors.Is(err, io.EOF) {
			return z.why(), nil
		}
		if err != nil {
			return fmt.Sprintf("a cached image is damaged: /%s: %v", split, err), nil
		}
		if entry.Type != 1 {
			continue
		}
		same := func(content io.Reader) (bool, error) {
			sum := crc64.New(crc64.MakeTable(crc64.ISO))
			_, err := io.Copy(sum, content)
			return len(entry.Sum) != crc64.Size || bytes.Equal(sum.Sum(nil), entry.Sum), err
		}
		if err := z.file(entry.Name, entry.Size, same); err != nil {
			return "", err
		}
	}
}

// blobDiffers compares a layer with the headers in its archive.
func (s Store) blobDiffers(blob, layer string) (string, error) {
	f, err := s.tree.OpenFile(blob, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, closing, err := unpack(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return fmt.Sprintf("a cached image is damaged: /%s: %v", blob, err), nil
	}
	defer closing()
	z := sizes{store: s, dir: layer, differ: map[string]int64{}}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return z.why(), nil
		}
		if err != nil {
			return fmt.Sprintf("a cached image is damaged: /%s: %v", blob, err), nil
		}
		size := int64(0)
		if header.Typeflag == tar.TypeReg {
			size = header.Size
		}
		if err := z.file(header.Name, size, func(content io.Reader) (bool, error) { return isEqual(archive, content) }); err != nil {
			return "", err
		}
	}
}

// unpack decompresses a layer archive from a registry.
func unpack(r *bufio.Reader) (io.Reader, func(), error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case strings.HasPrefix(string(head), "\x1f\x8b"):
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case string(head) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	default:
		return r, func() {}, nil
	}
}
