package scan

import (
	"bufio"
	"bytes"
	"io"
	"path"
	"slices"
	"strconv"
)

// ofPackages passes the hits in a file on. In uncompressed cpio archives, hits in files of packages are none, as in compressed ones.
func (d *decoder) ofPackages(head []byte, file io.ReaderAt, size int64, found func(secretHit)) func(secretHit) {
	if packed(head) != "cpio" {
		return found
	}
	return func(h secretHit) {
		copied := false
		walkCPIO(file, size, func(_ string, at, length int64) {
			if h.kind != Identity && at <= h.offset && h.offset < at+length && length < maxPacked {
				copied = d.packages.isCopy(io.NewSectionReader(file, at, length))
			}
		})
		if !copied {
			found(h)
		}
	}
}

// afterCPIO searches the compressed archive after uncompressed cpio archives, as in an initramfs with microcode. The
// uncompressed archives are searched as plain content.
func (d *decoder) afterCPIO(file io.ReaderAt, size int64, s *streamSearch) {
	at, ended := walkCPIO(file, size, func(name string, at, length int64) {
		if entry := path.Clean("/" + name); slices.Contains(nameFiles, entry) {
			content := headAt(file, at, int(min(length, nested)))
			d.search(part{how: "cpio", name: entry, isEntry: true, whole: content}, s, bytes.NewReader(content))
		}
	})
	if ended {
		d.unpack(headAt(file, at, cpioHeader), size-at, io.NewSectionReader(file, at, size-at), s)
	}
}

// walkCPIO calls visit for the files of the uncompressed cpio archives at the beginning of a file, and returns the place after
// the archives. ended is false for an archive without its end.
func walkCPIO(file io.ReaderAt, size int64, visit func(name string, at, length int64)) (at int64, ended bool) {
	for range maxArchives {
		if packed(headAt(file, at, cpioHeader)) != "cpio" {
			return at, true
		}
		for entries := 0; ; entries++ {
			length, nameLength, ok := cpioLengths(headAt(file, at, cpioHeader))
			if !ok || entries == maxEntries {
				return at, false
			}
			name := string(bytes.TrimRight(headAt(file, at+cpioHeader, int(min(nameLength, maxName))), "\x00"))
			begin := padded(at + cpioHeader + nameLength)
			visit(name, begin, length)
			at = padded(begin + length)
			if name == cpioTrailer {
				break
			}
		}
		for at < size {
			zeros := headAt(file, at, 1<<12)
			rest := bytes.TrimLeft(zeros, "\x00")
			if at += int64(len(zeros) - len(rest)); len(rest) > 0 || len(zeros) == 0 {
				break
			}
		}
	}
	return at, false
}

// eachEntry passes the name and the content of each file of a cpio stream, and leaves the data after the archive.
func eachEntry(r *bufio.Reader, visit func(name string, isText bool, content io.Reader)) {
	for range maxEntries {
		head := peek(r, cpioHeader)
		length, nameLength, ok := cpioLengths(head)
		if !ok {
			return
		}
		_, _ = r.Discard(cpioHeader)
		name := make([]byte, min(nameLength, maxName))
		if _, err := io.ReadFull(r, name); err != nil {
			return
		}
		inHead := cpioHeader + nameLength
		_, _ = io.CopyN(io.Discard, r, nameLength-int64(len(name))+padded(inHead)-inHead)
		hasText := isText(peek(r, int(min(length, 8<<10))))
		content := io.LimitReader(r, length)
		visit(string(bytes.TrimRight(name, "\x00")), hasText, content)
		_, _ = io.Copy(io.Discard, content)
		_, _ = io.CopyN(io.Discard, r, padded(length)-length)
	}
}

// peek returns up to n of the next bytes.
func peek(r *bufio.Reader, n int) []byte {
	head, _ := r.Peek(n)
	return head
}

// cpioLengths reads the lengths of a file and of its name.
func cpioLengths(head []byte) (content, name int64, ok bool) {
	if packed(head) != "cpio" {
		return 0, 0, false
	}
	content, errContent := strconv.ParseInt(string(head[54:62]), 16, 64)
	name, errName := strconv.ParseInt(string(head[94:102]), 16, 64)
	return content, name, errContent == nil && errName == nil && content >= 0 && name >= 0
}

// headAt returns up to n bytes at an offset.
func headAt(r io.ReaderAt, offset int64, n int) []byte {
	b := make([]byte, n)
	n, _ = r.ReadAt(b, offset)
	return b[:n]
}

// cpioTrailer is the name of the last entry of an archive.
const cpioTrailer = "TRAILER!!!"

// padded rounds up to the alignment of cpio.
func padded(n int64) int64 { return (n + 3) &^ 3 }
