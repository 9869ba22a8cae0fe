package scan

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
)

// Initramfs returns the paths of the files in an initramfs or a unified kernel image, also those behind archives with microcode.
// whole is false if a part cannot be read, as of a squashfs image within the archive.
func Initramfs(file io.ReaderAt, size int64) (names []string, whole bool) {
	if sections := Sections(file, ".initrd"); len(sections) > 0 {
		whole = true
		for _, section := range sections {
			more, isWhole := Initramfs(section, section.Size())
			names, whole = append(names, more...), whole && isWhole
		}
		return names, whole
	}
	whole = true
	add := func(name string) {
		names = append(names, path.Clean("/"+name))
		whole = whole && !strings.Contains(path.Base(name), "squash") && path.Ext(name) != ".erofs"
	}
	at, ended := walkCPIO(file, size, func(name string, _, _ int64) { add(name) })
	if !ended || at >= size {
		return names, whole && ended && len(names) > 0
	}
	z := unpacker(packed(headAt(file, at, cpioHeader)), io.NewSectionReader(file, at, size-at))
	if z == nil {
		return names, false
	}
	defer z.Close()
	left, cut := int64(maxInitramfs), false
	content, ends := bufio.NewReaderSize(&budget{r: z, left: &left, cut: &cut}, nested), false
	for range maxArchives {
		eachEntry(content, func(name string, _ bool, _ io.Reader) {
			add(name)
			ends = ends || name == cpioTrailer
		})
		for c, err := content.ReadByte(); err == nil; c, err = content.ReadByte() {
			if c != 0 {
				_ = content.UnreadByte()
				break
			}
		}
	}
	return names, whole && ends
}

// Module is what the content of a kernel module says.
type Module struct {
	// InTree: the module was built with its kernel. Source: Linux, scripts/mod/modpost.c, add_intree_flag.
	InTree bool
	// Signed: the module ends with a signature. Source: Linux, Documentation/admin-guide/module-signing.rst.
	Signed bool
}

const (
	inTree          = "intree=Y\x00"
	moduleSignature = "~Module signature appended~\n"
)

// ReadModule reads a kernel module, also a compressed one.
func ReadModule(file seeker) (m Module, err error) {
	var r io.Reader = file
	if how := packed(headAt(file, 0, cpioHeader)); how != "" {
		z := unpacker(how, file)
		if z == nil {
			return m, errors.New("cannot unpack a module in the format " + how)
		}
		defer z.Close()
		r = z
	}
	window, kept := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(r, window[kept:])
		seen := window[:kept+n]
		m.InTree = m.InTree || bytes.Contains(seen, []byte(inTree))
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			m.Signed = bytes.HasSuffix(seen, []byte(moduleSignature))
			return m, nil
		}
		if err != nil {
			return m, err
		}
		kept = copy(window, seen[len(seen)-len(moduleSignature):])
	}
}
