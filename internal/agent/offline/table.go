package offline

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
)

// Partition is a partition of a device. A device without a partition table has one, with the number 0.
type Partition struct {
	// Number is the kernel's number.
	Number int
	// Begin and Length are in bytes.
	Begin, Length int64
	// Type is the GUID of GPT in lower case, or the two hex digits of MBR; empty without a table.
	Type string
	// UUID and Name are PARTUUID and PARTLABEL; empty without them.
	UUID, Name string
	Content
}

// Types of partitions. Source: UEFI specification, and the Discoverable Partitions Specification.
const (
	typeESP          = "c12a7328-f81f-11d2-ba4b-00c04fd430c8"
	typeExtendedBoot = "bc13c2ff-59e6-4262-a352-b275fd6f7172"
	typeESPofMBR     = "ef"
)

// rootTypes are the types of root partitions for x86-64 and arm64.
var rootTypes = []string{"4f68bce3-e8cd-4db1-96e7-fbcaf984b709", "b921b045-1df0-41c3-af44-4c6f280d3fae"}

const (
	// sector is the unit of MBR, and the smallest block of GPT.
	sector = 512
	// maxEntries and maxLogical limit the entries of a false table.
	maxEntries, maxLogical = 1024, 60
)

var (
	errTable     = errors.New("the partition table cannot be relied on")
	errDamaged   = fmt.Errorf("%w: a checksum of GPT is wrong", errTable)
	errOverlap   = fmt.Errorf("%w: two partitions overlap", errTable)
	errOutside   = fmt.Errorf("%w: a partition ends after the device", errTable)
	errEntries   = fmt.Errorf("%w: its entries have an unknown form", errTable)
	errTruncated = fmt.Errorf("%w: the device ends within the table", errTable)
)

// partitions reads the partition table of a device of so many bytes: GPT behind a protective MBR, or MBR with logical
// partitions. Without a table the whole device is one partition. The kernel reads tables by the same rules. Sources: UEFI
// specification, GPT; Linux, block/partitions/efi.c and msdos.c.
func partitions(r io.ReaderAt, size int64) ([]Partition, error) {
	head := bytesAt(r, 0, sector)
	if head == nil {
		return nil, errTruncated
	}
	var found []Partition
	var err error
	switch entries := mbrEntries(head); {
	case len(entries) == 0:
		found = []Partition{{Length: size}}
	case slices.ContainsFunc(entries, func(e mbrEntry) bool { return e.kind == protective }):
		found, err = gpt(r)
	default:
		found, err = mbr(r, entries, head)
	}
	if err != nil {
		return nil, err
	}
	if err := disjoint(found, size); err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Content = contentOf(r, found[i].Begin, found[i].Length)
	}
	return found, nil
}

// disjoint returns an error unless the partitions are on the device and apart from each other.
func disjoint(found []Partition, size int64) error {
	byBegin := slices.SortedFunc(slices.Values(found), func(a, b Partition) int { return cmp.Compare(a.Begin, b.Begin) })
	end := int64(0)
	for _, p := range byBegin {
		switch {
		case p.Begin < end:
			return errOverlap
		case p.Length <= 0 || p.Begin > size-p.Length:
			return errOutside
		}
		end = p.Begin + p.Length
	}
	return nil
}

// mbrEntry is an entry of MBR. Numbers are in sectors.
type mbrEntry struct {
	slot          int
	kind          byte
	first, length int64
}

// protective is the type of the entry that protects GPT.
const protective = 0xEE

func (e mbrEntry) isExtended() bool { return e.kind == 0x05 || e.kind == 0x0F || e.kind == 0x85 }

// mbrEntries returns the used entries of a sector; none if the sector has no table. Boot code of a file system has other
// values in the field of the flag.
func mbrEntries(head []byte) (entries []mbrEntry) {
	if head[510] != 0x55 || head[511] != 0xAA {
		return nil
	}
	for i := range 4 {
		e := head[446+16*i:][:16]
		if e[0]&0x7F != 0 {
			return nil
		}
		first, length := int64(binary.LittleEndian.Uint32(e[8:])), int64(binary.LittleEndian.Uint32(e[12:]))
		if e[4] != 0 && length > 0 {
			entries = append(entries, mbrEntry{i, e[4], first, length})
		}
	}
	return entries
}

// mbr returns the partitions of MBR. The first logical partition has the number 5.
func mbr(r io.ReaderAt, entries []mbrEntry, head []byte) (found []Partition, err error) {
	disk := binary.LittleEndian.Uint32(head[440:])
	add := func(number int, kind byte, first, length int64) {
		p := Partition{Number: number, Begin: first * sector, Length: length * sector, Type: hex.EncodeToString([]byte{kind})}
		if disk != 0 {
			p.UUID = fmt.Sprintf("%08x-%02x", disk, number)
		}
		found = append(found, p)
	}
	number := 5
	for _, e := range entries {
		if !e.isExtended() {
			add(e.slot+1, e.kind, e.first, e.length)
			continue
		}
		for at, n := e.first, 0; ; n++ {
			table := bytesAt(r, at*sector, sector)
			if table == nil || n > maxLogical {
				return nil, errEntries
			}
			next := int64(0)
			for _, logical := range mbrEntries(table) {
				switch {
				case logical.isExtended():
					next = e.first + logical.first
				case logical.slot < 2:
					add(number, logical.kind, at+logical.first, logical.length)
					number++
				}
			}
			if next <= at {
				break
			}
			at = next
		}
	}
	return found, nil
}

// gpt returns the partitions of GPT. Its blocks have the size of the device's sectors, 512 or 4096 bytes.
func gpt(r io.ReaderAt) ([]Partition, error) {
	block, header := int64(0), []byte(nil)
	for _, size := range []int64{512, 4096} {
		if head := bytesAt(r, size, 512); head != nil && string(head[:8]) == "EFI PART" {
			block, header = size, head
			break
		}
	}
	if err := checkHeader(header); err != nil {
		return nil, err
	}
	table, count, width := binary.LittleEndian.Uint64(header[72:]), binary.LittleEndian.Uint32(header[80:]), binary.LittleEndian.Uint32(header[84:])
	if width < 128 || width > 4096 || width%128 != 0 || count == 0 || count > maxEntries || table > 1<<40 {
		return nil, errEntries
	}
	entries := bytesAt(r, int64(table)*block, int(count*width))
	switch {
	case entries == nil:
		return nil, errTruncated
	case crc32.ChecksumIEEE(entries) != binary.LittleEndian.Uint32(header[88:]):
		return nil, errDamaged
	}
	return gptEntries(entries, int(width), block)
}

// gptEntries returns the used entries of a table.
func gptEntries(entries []byte, width int, block int64) (found []Partition, _ error) {
	for i := 0; len(entries) >= width; i, entries = i+1, entries[width:] {
		e := entries[:width]
		if guid(e) == unused {
			continue
		}
		first, last := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		if first == 0 || last < first || last > 1<<50 {
			return nil, errEntries
		}
		found = append(found, Partition{
			Number: i + 1, Begin: int64(first) * block, Length: int64(last-first+1) * block, Type: guid(e), UUID: guid(e[16:]), Name: utf16Text(e[56:128]),
		})
	}
	return found, nil
}

// unused is the type of an empty entry.
const unused = "00000000-0000-0000-0000-000000000000"

// checkHeader compares a header of GPT with its checksum.
func checkHeader(header []byte) error {
	if header == nil {
		return errDamaged
	}
	length := binary.LittleEndian.Uint32(header[12:])
	if length < 92 || length > 512 {
		return errEntries
	}
	whole := slices.Clone(header[:length])
	clear(whole[16:20])
	if crc32.ChecksumIEEE(whole) != binary.LittleEndian.Uint32(header[16:]) {
		return errDamaged
	}
	return nil
}

// guid returns the text of a GUID, whose first three fields are little-endian.
func guid(b []byte) string {
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x",
		binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:]), b[8:10], b[10:16])
}

func utf16Text(b []byte) string {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}

// cText returns a text that ends at its first zero.
func cText(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

func bytesAt(r io.ReaderAt, offset int64, n int) []byte {
	b := make([]byte, n)
	if _, err := r.ReadAt(b, offset); err != nil {
		return nil
	}
	return b
}
