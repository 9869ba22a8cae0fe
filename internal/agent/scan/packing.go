package scan

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// formats begin with these bytes.
var formats = []struct {
	name, begins string
	// least is the length of the shortest content, and also a further condition; nil for none.
	least int
	also  func(head []byte) bool
}{
	{"gzip", "\x1f\x8b\x08", 10, func(head []byte) bool { return head[3] < 0x20 }},
	{"zip", "PK\x03\x04", 0, nil},
	{"zstd", "\x28\xb5\x2f\xfd", 0, nil},
	{"xz", "\xfd7zXZ\x00", 0, nil},
	{"bzip2", "BZh", 11, func(head []byte) bool { return bytes.Equal(head[4:10], []byte("1AY&SY")) }},
	{"lz4", lz4Frame, 0, nil},
	{"lz4", lz4Legacy, 0, nil},
	{"lzma", "\x5d", lzma.HeaderLen, isLZMA},
	{"pe", "MZ", peHeader, nil},
	{"cpio", "07070", cpioHeader, func(head []byte) bool { return head[5] == '1' || head[5] == '2' }},
}

// packed names the compression format of the content; empty for unknown formats.
func packed(head []byte) string {
	for i := range formats {
		f := &formats[i]
		if len(head) >= f.least && len(head) >= len(f.begins) && string(head[:len(f.begins)]) == f.begins && (f.also == nil || f.also(head)) {
			return f.name
		}
	}
	return ""
}

// seeker reads an archive.
type seeker interface {
	io.Reader
	io.ReaderAt
}

// unpack searches compressed content. Without a file only the head is available.
func (d *decoder) unpack(head []byte, size int64, file seeker, s *streamSearch) {
	how := packed(head)
	if how == "" || d.depth == maxDepth {
		return
	}
	if file == nil {
		file, size = bytes.NewReader(bytes.Clone(head)), int64(len(head))
	}
	switch how {
	case "zip":
		d.archive(file, size, s)
	case "cpio":
		d.afterCPIO(file, size, s)
	case "pe":
		for _, initramfs := range Sections(file, ".initrd") {
			d.unpack(headAt(initramfs, 0, cpioHeader), initramfs.Size(), initramfs, s)
		}
	default:
		if z := unpacker(how, file); z != nil {
			d.unpacked(how, s, z)
			_ = z.Close() // nothing is written
		}
	}
}

// unpacker reads a compressed stream; nil if it does not begin as its format.
func unpacker(how string, file io.Reader) io.ReadCloser {
	switch how {
	case "gzip":
		if z, err := gzip.NewReader(file); err == nil {
			return z
		}
	case "zstd":
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDictionary), zstd.WithDecoderLowmem(true))
		if err == nil {
			return z.IOReadCloser()
		}
	case "xz":
		if z, err := (xz.ReaderConfig{DictCap: maxDictionary}).NewReader(file); err == nil {
			return io.NopCloser(z)
		}
	case "lzma":
		if z, err := (lzma.ReaderConfig{DictCap: maxDictionary}).NewReader(file); err == nil {
			return io.NopCloser(z)
		}
	case "bzip2":
		return io.NopCloser(bzip2.NewReader(file))
	case "lz4":
		return io.NopCloser(&lz4Reader{r: bufio.NewReader(file)})
	}
	return nil
}

// isLZMA reports whether content begins like a file of lzma: usual properties, a dictionary that is a power of two, and a size
// that is unknown or small. Source: The .lzma File Format.
func isLZMA(head []byte) bool {
	dictionary := binary.LittleEndian.Uint32(head[1:])
	size := binary.LittleEndian.Uint64(head[5:])
	return dictionary >= 1<<12 && dictionary&(dictionary-1) == 0 && (size == math.MaxUint64 || size < 1<<38)
}

const (
	// maxDictionary is the memory for unpacking, in bytes. It suffices for the usual levels of zstd and xz.
	maxDictionary = 64 << 20
	// cpioHeader is the length of a header in bytes. Source: Linux, Documentation/driver-api/early-userspace.
	cpioHeader = 110
	// maxName is the length of the longest name that is searched.
	maxName = 4096
	// maxArchives is the number of archives in a file, one after the other.
	maxArchives = 8
)

func (d *decoder) archive(file io.ReaderAt, size int64, s *streamSearch) {
	if directoryOf(file, size) > maxDirectory {
		*d.cut = true
		return
	}
	z, err := zip.NewReader(file, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return
	}
	for i, entry := range z.File {
		if i == maxEntries || *d.left <= 0 {
			*d.cut = true
			return
		}
		content, err := entry.Open()
		if err != nil {
			continue
		}
		if d.depth < maxDepth {
			d.search(part{how: "zip", name: path.Clean("/" + entry.Name), named: takesNames("/" + entry.Name)}, s, &budget{r: content, left: d.left,
				cut: d.cut})
		}
		content.Close()
	}
}

// directoryOf returns the declared size of a zip archive's directory in bytes, because the library reads it at once.
// Source: APPNOTE, 4.3.16; in the 64-bit form all bits are set.
func directoryOf(file io.ReaderAt, size int64) int64 {
	tail := bytesAt(file, max(0, size-maxComment), int(min(size, maxComment)))
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || at+16 > len(tail) {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(tail[at+12:]))
}

// maxComment is the longest end of an archive: the last record with a comment.
const maxComment = 22 + 1<<16
