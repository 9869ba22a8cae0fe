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

// packed names the compression format of the content; empty for unknown formats.
func packed(head []byte) string {
	switch {
	case len(head) >= 10 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8 && head[3] < 0x20:
		return "gzip"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "zip"
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return "zstd"
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "xz"
	case bytes.HasPrefix(head, []byte("BZh")) && len(head) > 10 && bytes.Equal(head[4:10], []byte("1AY&SY")):
		return "bzip2"
	case bytes.HasPrefix(head, []byte(lz4Frame)), bytes.HasPrefix(head, []byte(lz4Legacy)):
		return "lz4"
	case isLZMA(head):
		return "lzma"
	case bytes.HasPrefix(head, []byte("MZ")) && len(head) >= peHeader:
		return "pe"
	case bytes.HasPrefix(head, []byte("07070")) && len(head) >= cpioHeader && (head[5] == '1' || head[5] == '2'):
		return "cpio"
	default:
		return ""
	}
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
	case "gzip":
		if z, err := gzip.NewReader(file); err == nil {
			d.unpacked(how, s, z)
		}
	case "zip":
		d.archive(file, size, s)
	case "bzip2":
		d.unpacked(how, s, bzip2.NewReader(file))
	case "xz":
		if z, err := (xz.ReaderConfig{DictCap: maxDictionary}).NewReader(file); err == nil {
			d.unpacked(how, s, z)
		}
	case "zstd":
		if z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDictionary), zstd.WithDecoderLowmem(true)); err == nil {
			d.unpacked(how, s, z)
			z.Close()
		}
	case "lz4":
		d.unpacked(how, s, &lz4Reader{r: bufio.NewReader(file)})
	case "lzma":
		if z, err := (lzma.ReaderConfig{DictCap: maxDictionary}).NewReader(file); err == nil {
			d.unpacked(how, s, z)
		}
	case "cpio":
		d.afterCPIO(file, size, s)
	case "pe":
		for _, initramfs := range Sections(file, ".initrd") {
			d.unpack(headAt(initramfs, 0, cpioHeader), initramfs.Size(), initramfs, s)
		}
	}
}

// isLZMA reports whether content begins like a file of lzma: usual properties, a dictionary that is a power of two, and a size
// that is unknown or small. Source: The .lzma File Format.
func isLZMA(head []byte) bool {
	if len(head) < lzma.HeaderLen || head[0] != 0x5d {
		return false
	}
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
