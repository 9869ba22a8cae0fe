package scan

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
)

// peHeader is the length of the first header of a portable executable, in bytes.
const peHeader = 64

// Sections returns the sections of a unified kernel image with a name, such as .cmdline and .initrd; none for other files.
// Source: systemd-stub(7); PE Format, section table.
func Sections(image io.ReaderAt, name string) (found []*io.SectionReader) {
	const coffHeader, sectionHeader = 24, 40
	head := headAt(image, 0, peHeader)
	if len(head) < peHeader || !bytes.HasPrefix(head, []byte("MZ")) {
		return nil
	}
	at := int64(binary.LittleEndian.Uint32(head[0x3c:]))
	coff := headAt(image, at, coffHeader)
	if len(coff) < coffHeader || !bytes.HasPrefix(coff, []byte("PE\x00\x00")) {
		return nil
	}
	count, optional := binary.LittleEndian.Uint16(coff[6:]), binary.LittleEndian.Uint16(coff[20:])
	table := headAt(image, at+coffHeader+int64(optional), int(count)*sectionHeader)
	for ; len(table) >= sectionHeader; table = table[sectionHeader:] {
		if strings.TrimRight(string(table[:8]), "\x00") != name {
			continue
		}
		// The size on the disk is padded.
		size, begin := min(binary.LittleEndian.Uint32(table[8:]), binary.LittleEndian.Uint32(table[16:])), binary.LittleEndian.Uint32(table[20:])
		found = append(found, io.NewSectionReader(image, int64(begin), int64(size)))
	}
	return found
}
