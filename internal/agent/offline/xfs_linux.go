package offline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// readWriter is an unmounted partition.
type readWriter interface {
	io.ReaderAt
	io.WriterAt
}

// xfsFormat is an unmounted XFS. Its numbers are big-endian, but its checksums are not. Source: Linux, fs/xfs/libxfs/xfs_format.h,
// xfs_log_format.h and xfs_da_format.h.
type xfsFormat struct {
	f                              readWriter
	block, inGroup, groups, sector int64
	inode                          int64
	// names is the size of a directory's block.
	names               int64
	groupShift          byte
	logBegin, logLength int64
	hasHoles, hasSums   bool
	// wiped is the number of changed blocks, inodes and pieces of the log.
	wiped int
}

// boundedFile ends the work on a partition with its context, or after as many bytes as only trees with loops have. A file system holds each
// inode and each block once.
type boundedFile struct {
	readWriter
	ctx  context.Context //nolint:containedctx // the file is of one run
	left int64
}

func (b *boundedFile) ReadAt(to []byte, at int64) (int, error) {
	if b.left -= int64(len(to)); b.left < 0 {
		return 0, errors.New("the trees of XFS are damaged: they have loops")
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.readWriter.ReadAt(to, at)
}

func (b *boundedFile) WriteAt(from []byte, at int64) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.readWriter.WriteAt(from, at)
}

// wipeXFS writes zeros over what XFS keeps of removed names: in its log, behind the content of inodes, and in the free parts of directories.
// Nothing reads that: the log ends with the record of an unmount, which stays. It returns the number of changed pieces.
// The partition has so many bytes.
func wipeXFS(ctx context.Context, f readWriter, size int64) (int, error) {
	const reads = 4 // the log is read twice, and inodes are also in blocks
	fs, err := readXFSFormat(&boundedFile{f, ctx, reads*size + zeroChunk})
	if err != nil {
		return 0, err
	}
	if err := fs.wipeLog(); err != nil || !fs.hasSums {
		return fs.wiped, err
	}
	for group := range fs.groups {
		if err := fs.wipeGroup(group); err != nil {
			return fs.wiped, err
		}
	}
	return fs.wiped, nil
}

// readXFSFormat reads the superblock. Only the log is wiped in a version without checksums, which mkfs.xfs has made only on request since 2015.
func readXFSFormat(f readWriter) (*xfsFormat, error) {
	const sparseInodes = 0x2
	super := bytesAt(f, 0, 512)
	if super == nil || string(super[:4]) != "XFSB" {
		return nil, errors.New("the superblock of XFS cannot be read")
	}
	u16 := func(at int) int64 { return int64(binary.BigEndian.Uint16(super[at:])) }
	u32 := func(at int) int64 { return int64(binary.BigEndian.Uint32(super[at:])) }
	fs := &xfsFormat{
		f: f, block: u32(4), inGroup: u32(84), groups: u32(88), sector: u16(102), inode: u16(104), groupShift: super[124],
		hasSums: u16(100)&0xF == 5, names: u32(4) << (super[192] & 7), hasHoles: u32(216)&sparseInodes != 0,
	}
	isPower := func(n int64) bool { return n > 0 && n&(n-1) == 0 }
	if !isPower(fs.block) || !isPower(fs.sector) || !isPower(fs.inode) || fs.block < 512 || fs.block > 64<<10 || fs.sector < 512 || fs.inode < 256 ||
		fs.inode > fs.block || fs.names > 64<<10 || fs.groupShift > 31 {
		return nil, errors.New("the superblock of XFS is damaged")
	}
	fs.logBegin, fs.logLength = fs.offset(binary.BigEndian.Uint64(super[48:])), u32(96)*fs.block
	return fs, nil
}

// offset returns the place of a block of the file system, whose number has the group in its upper bits.
func (fs *xfsFormat) offset(block uint64) int64 {
	return fs.inGroupAt(int64(block>>fs.groupShift), int64(block&(1<<fs.groupShift-1))) //nolint:gosec // bounded by the device, or the read fails
}

func (fs *xfsFormat) inGroupAt(group, block int64) int64 {
	return (group*fs.inGroup + block) * fs.block
}

const (
	// logBlock is the unit of the log, in bytes. Each begins with the number of its cycle, or with the magic number of a record.
	logBlock  = 512
	logRecord = 0xFEEDBABE
	// logHeaderCovers is how much of a record one header describes, in bytes.
	logHeaderCovers = 32 << 10
)

// wipeLog zeroes all records of the log but the last. The first bytes of each block stay, because the kernel finds the end of the log by them.
func (fs *xfsFormat) wipeLog() error {
	log := io.NewSectionReader(fs.f, fs.logBegin, fs.logLength)
	last, err := lastRecord(log)
	if err != nil {
		return err
	}
	buffer := make([]byte, zeroChunk)
	for at := int64(0); at < fs.logLength; at += zeroChunk {
		piece := buffer[:min(zeroChunk, fs.logLength-at)]
		if _, err := log.ReadAt(piece, at); err != nil {
			return err
		}
		changed := false
		for i := int64(0); i < int64(len(piece)); i += logBlock {
			// The last record may go on at the beginning of the log.
			if b := piece[i : i+logBlock]; (at+i-last.from+fs.logLength)%fs.logLength >= last.length {
				keep := 4
				if binary.BigEndian.Uint32(b) == logRecord {
					keep = logBlock
				}
				changed = zeroBytes(b[keep:]) || changed
			}
		}
		if changed {
			fs.wiped++
			if _, err := fs.f.WriteAt(piece, fs.logBegin+at); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastRecord returns the place of the log's last record, which must be the record of an unmount.
func lastRecord(log *io.SectionReader) (last extent, err error) {
	const unmount = 0x20
	newest, operation := uint64(0), int64(0)
	buffer := make([]byte, zeroChunk)
	for at := int64(0); at < log.Size(); at += zeroChunk {
		piece := buffer[:min(zeroChunk, log.Size()-at)]
		if _, err := log.ReadAt(piece, at); err != nil {
			return extent{}, err
		}
		for i := 0; i < len(piece); i += logBlock {
			b := piece[i:]
			if number := binary.BigEndian.Uint64(b[16:]); binary.BigEndian.Uint32(b) == logRecord && number > newest {
				header := max(1, (int64(binary.BigEndian.Uint32(b[320:]))+logHeaderCovers-1)/logHeaderCovers) * logBlock
				newest, last = number, extent{at + int64(i), header + int64(binary.BigEndian.Uint32(b[12:]))}
				operation = (last.from + header) % log.Size()
			}
		}
	}
	head := make([]byte, logBlock)
	if _, err := log.ReadAt(head, operation); err != nil {
		return extent{}, err
	}
	if newest == 0 || binary.BigEndian.Uint32(head) == logRecord || head[9]&unmount == 0 {
		return extent{}, errors.New("the log of XFS does not end with the record of an unmount")
	}
	return last, nil
}

// zeroBytes reports whether some byte was not zero.
func zeroBytes(b []byte) (changed bool) {
	for _, c := range b {
		changed = changed || c != 0
	}
	clear(b)
	return changed
}

// wipeGroup wipes the inodes of a group, which are in a tree, and the blocks in reserve for its trees.
func (fs *xfsFormat) wipeGroup(group int64) error {
	headers := make([]byte, 4*fs.sector)
	if _, err := fs.f.ReadAt(headers, fs.inGroupAt(group, 0)); err != nil {
		return err
	}
	free, header, reserve := headers[fs.sector:], headers[2*fs.sector:], headers[3*fs.sector:]
	if string(free[:4]) != "XAGF" || string(header[:4]) != "XAGI" || string(reserve[:4]) != "XAFL" {
		return fmt.Errorf("the headers of group %d of XFS are damaged", group)
	}
	if err := fs.wipeReserve(group, free, reserve); err != nil {
		return err
	}
	place := func(number []byte) int64 { return fs.inGroupAt(group, int64(binary.BigEndian.Uint32(number))) }
	tree := xfsTree{magic: "IAB3", head: 56, sum: 52, key: 4, number: 4, place: place}
	return fs.eachRecord(place(header[20:]), maxLevels, tree, func(record []byte) error {
		holes := uint16(0)
		if fs.hasHoles {
			holes = binary.BigEndian.Uint16(record[4:])
		}
		first := fs.inGroupAt(group, 0) + int64(binary.BigEndian.Uint32(record))*fs.inode
		for i := range int64(64) { // a hole has four inodes
			if holes>>(i/4)&1 == 0 {
				if err := fs.wipeInode(first + i*fs.inode); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// wipeReserve zeroes the blocks that a group keeps for its trees. They are neither free nor have content, but keep what they had before.
func (fs *xfsFormat) wipeReserve(group int64, free, reserve []byte) error {
	const head = 36
	first, count := int64(binary.BigEndian.Uint32(free[40:])), int64(binary.BigEndian.Uint32(free[48:]))
	size := (fs.sector - head) / 4
	if count > size || first >= size {
		return fmt.Errorf("the blocks in reserve of group %d of XFS are damaged", group)
	}
	for i := range count {
		number := int64(binary.BigEndian.Uint32(reserve[head+(first+i)%size*4:]))
		if number == 0 || number >= fs.inGroup {
			return fmt.Errorf("block %d in reserve of group %d of XFS is damaged", number, group)
		}
		if _, err := fs.f.WriteAt(make([]byte, fs.block), fs.inGroupAt(group, number)); err != nil {
			return err
		}
	}
	return nil
}

// xfsTree is a kind of tree: the magic number, the length of the header with the place of its checksum, and the lengths of keys and of
// numbers of blocks. place reads such a number.
type xfsTree struct {
	magic                  string
	head, sum, key, number int64
	place                  func(number []byte) int64
}

// recordLength is the length of a record of the used trees, and maxLevels is more than a tree has.
const (
	recordLength = 16
	maxLevels    = 16
)

// eachRecord visits the leaves below a node, which has fewer levels below it than the node above.
func (fs *xfsFormat) eachRecord(at int64, levels uint16, tree xfsTree, visit func(record []byte) error) error {
	node := make([]byte, fs.block)
	if _, err := fs.f.ReadAt(node, at); err != nil {
		return err
	}
	level, records := binary.BigEndian.Uint16(node[4:]), int64(binary.BigEndian.Uint16(node[6:]))
	most := (fs.block - tree.head) / (tree.key + tree.number)
	if level == 0 {
		most = (fs.block - tree.head) / recordLength
	}
	if string(node[:4]) != tree.magic || level >= levels || records > most || !isSealed(node, tree.sum) {
		return fmt.Errorf("a block of the tree %s of XFS is damaged", tree.magic)
	}
	for i := range records {
		var err error
		if level == 0 {
			err = visit(node[tree.head+i*recordLength:][:recordLength])
		} else {
			err = fs.eachRecord(tree.place(node[tree.head+most*tree.key+i*tree.number:]), level, tree, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The formats of what an inode holds itself.
const (
	inDevice, inLocal, inExtents, inTree = 0, 1, 2, 3
	// inodeHead is the length of an inode's own fields, and inodeSum the place of their checksum.
	inodeHead, inodeSum = 176, 100
)

// wipeInode zeroes what is behind the content of an inode, and wipes the blocks of a directory.
func (fs *xfsFormat) wipeInode(at int64) error {
	const directory, manyExtents = 0o040000, 1 << 4
	inode := make([]byte, fs.inode)
	if _, err := fs.f.ReadAt(inode, at); err != nil {
		return err
	}
	if string(inode[:2]) != "IN" || inode[4] != 3 || !isSealed(inode, inodeSum) {
		return nil // the check of the file system decides about it
	}
	mode, size := binary.BigEndian.Uint16(inode[2:]), int64(binary.BigEndian.Uint64(inode[56:])) //nolint:gosec // compared below
	extents, attributes := int64(binary.BigEndian.Uint32(inode[76:])), int64(binary.BigEndian.Uint16(inode[80:]))
	if binary.BigEndian.Uint64(inode[120:])&manyExtents != 0 {
		extents, attributes = int64(binary.BigEndian.Uint64(inode[24:])), int64(binary.BigEndian.Uint32(inode[76:])) //nolint:gosec // compared below
	}
	content, attribute := inode[inodeHead:], []byte(nil)
	if fork := int(inode[82]) * 8; fork > 0 && fork < len(content) {
		content, attribute = content[:fork], content[fork:]
	}
	changed := false
	if mode == 0 { // a free inode
		changed = zeroBytes(content) || changed
		changed = zeroBytes(attribute) || changed
	} else {
		changed = zeroBehind(content, inode[5], size, extents)
		if len(attribute) > 0 {
			changed = zeroBehind(attribute, inode[83], int64(binary.BigEndian.Uint16(attribute)), attributes) || changed
		}
	}
	if changed {
		if err := fs.write(inode, inodeSum, at); err != nil {
			return err
		}
	}
	if mode&0o170000 != directory {
		return nil
	}
	return fs.eachExtent(content, inode[5], extents)
}

// zeroBehind zeroes what is behind the used bytes of a fork.
func zeroBehind(fork []byte, format byte, size, extents int64) bool {
	used := int64(len(fork))
	switch format {
	case inDevice:
		used = 8
	case inLocal:
		used = size
	case inExtents:
		used = extents * recordLength
	}
	return used >= 0 && used < int64(len(fork)) && zeroBytes(fork[used:])
}

// eachExtent wipes the blocks of a directory.
func (fs *xfsFormat) eachExtent(fork []byte, format byte, extents int64) error {
	wipe := func(record []byte) error {
		low, high := binary.BigEndian.Uint64(record[8:]), binary.BigEndian.Uint64(record)
		first := fs.offset(high&(1<<9-1)<<43 | low>>21)
		at, length := int64(high<<1>>10)*fs.block, int64(low&(1<<21-1))*fs.block //nolint:gosec // masked
		// A block of the directory that is in two extents keeps its names.
		for i := (fs.names - at%fs.names) % fs.names; i+fs.names <= length; i += fs.names {
			if err := fs.wipeDirectory(first + i); err != nil {
				return err
			}
		}
		return nil
	}
	switch format {
	case inExtents:
		for i := range min(extents, int64(len(fork))/recordLength) {
			if err := wipe(fork[i*recordLength:][:recordLength]); err != nil {
				return err
			}
		}
	case inTree:
		place := func(number []byte) int64 { return fs.offset(binary.BigEndian.Uint64(number)) }
		tree := xfsTree{magic: "BMA3", head: 72, sum: 64, key: 8, number: 8, place: place}
		level, records, most := binary.BigEndian.Uint16(fork), int(binary.BigEndian.Uint16(fork[2:])), (len(fork)-4)/16
		for i := range min(records, most) {
			if err := fs.eachRecord(place(fork[4+most*8+i*8:]), level, tree, wipe); err != nil {
				return err
			}
		}
	}
	return nil
}

// wipeDirectory zeroes the free parts of a block with names.
func (fs *xfsFormat) wipeDirectory(at int64) error {
	const sum, head, tail, free = 4, 64, 8, 0xFFFF
	b := make([]byte, fs.names)
	if _, err := fs.f.ReadAt(b, at); err != nil {
		return err
	}
	end := len(b)
	switch string(b[:4]) {
	case "XDB3": // the only block: its end has hashes
		end -= tail + 8*int(binary.BigEndian.Uint32(b[len(b)-tail:]))
	case "XDD3":
	default:
		return nil // hashes or free space
	}
	if !isSealed(b, sum) {
		return nil // the check of the file system decides about it
	}
	changed := false
	for i := head; i+16 <= end; {
		if binary.BigEndian.Uint16(b[i:]) != free {
			i += (8 + 1 + int(b[i+8]) + 1 + 2 + 7) &^ 7
			continue
		}
		length := int(binary.BigEndian.Uint16(b[i+2:]))
		if length < 8 || length%8 != 0 || i+length > end {
			return fmt.Errorf("a directory of XFS is damaged: %d free bytes", length)
		}
		changed = zeroBytes(b[i+4:i+length-2]) || changed
		i += length
	}
	if !changed {
		return nil
	}
	return fs.write(b, sum, at)
}

// write writes a changed block with its new checksum.
func (fs *xfsFormat) write(b []byte, sum, at int64) error {
	fs.wiped++
	binary.LittleEndian.PutUint32(b[sum:], checksum(b, sum))
	_, err := fs.f.WriteAt(b, at)
	return err
}

// isSealed reports whether a block has its checksum.
func isSealed(b []byte, sum int64) bool {
	return binary.LittleEndian.Uint32(b[sum:]) == checksum(b, sum)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the checksum of a block without the four bytes of the checksum itself.
func checksum(b []byte, sum int64) uint32 {
	c := crc32.Update(crc32.Checksum(b[:sum], castagnoli), castagnoli, make([]byte, 4))
	return crc32.Update(c, castagnoli, b[sum+4:])
}
