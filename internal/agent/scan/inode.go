package scan

import "encoding/binary"

// inodeTable is the table of one group. Source: Linux, Documentation/filesystems/ext4/group_descr.rst.
type inodeTable struct {
	bitmap, first int64
	// inodes is the number of inodes that were ever used.
	inodes int64
}

// inodesUnset marks a group whose table was never written.
const inodesUnset = 0x1

func tableOf(descriptor []byte, perGroup int64) inodeTable {
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(descriptor[at:])) }
	u16 := func(at int) int64 { return int64(binary.LittleEndian.Uint16(descriptor[at:])) }
	t := inodeTable{bitmap: u32(0x4), first: u32(0x8)}
	unused := u16(0x1C)
	if len(descriptor) >= 64 {
		t.bitmap |= u32(0x24) << 32
		t.first |= u32(0x28) << 32
		unused |= u16(0x32) << 16
	}
	if u16(0x12)&inodesUnset == 0 {
		t.inodes = max(0, perGroup-unused)
	}
	return t
}

const (
	extentsFlag    = 0x80000
	extentMagic    = 0xF30A
	maxExtentDepth = 5
	// unwrittenLength is added to the length of an unwritten extent, in blocks.
	unwrittenLength = 32768
	// maxTable is the number of bytes of a table in a damaged file system.
	maxTable = 64 << 20
)

// releaseInodes marks blocks as free that a bitmap has as used, although no clone reads their content: unwritten extents
// read as zeros, and the first mount releases files without a name.
func (fs *extFS) releaseInodes() {
	if fs.read {
		return
	}
	fs.read = true
	if fs.inodeSize < 128 || fs.inodeSize > fs.blockSize {
		return
	}
	for _, t := range fs.tables {
		size := t.inodes * fs.inodeSize
		if size <= 0 || size > maxTable {
			continue
		}
		used := bytesAt(fs.image, fs.begin+t.bitmap*fs.blockSize, int(fs.blockSize))
		table := bytesAt(fs.image, fs.begin+t.first*fs.blockSize, int(size))
		if used == nil || table == nil {
			continue
		}
		for i := range t.inodes {
			if i/8 < int64(len(used)) && used[i/8]&(1<<(i%8)) != 0 {
				fs.releaseInode(table[i*fs.inodeSize:][:fs.inodeSize])
			}
		}
	}
}

func (fs *extFS) releaseInode(inode []byte) {
	mode, links := binary.LittleEndian.Uint16(inode), binary.LittleEndian.Uint16(inode[0x1A:])
	if mode&0xF000 != 0x8000 || binary.LittleEndian.Uint32(inode[0x20:])&extentsFlag == 0 {
		return
	}
	fs.releaseExtents(inode[0x28:0x28+60], links == 0, maxExtentDepth)
}

// releaseExtents marks the blocks of a node's unwritten extents as free, or of all its extents.
func (fs *extFS) releaseExtents(node []byte, all bool, levels int) {
	entries, depth := int(binary.LittleEndian.Uint16(node[2:])), binary.LittleEndian.Uint16(node[6:])
	if binary.LittleEndian.Uint16(node) != extentMagic || 12+entries*12 > len(node) || levels < 0 {
		return
	}
	for i := range entries {
		entry := node[12+i*12:][:12]
		if depth > 0 {
			block := int64(binary.LittleEndian.Uint32(entry[4:])) | int64(binary.LittleEndian.Uint16(entry[8:]))<<32
			if below := bytesAt(fs.image, fs.begin+block*fs.blockSize, int(fs.blockSize)); below != nil {
				fs.releaseExtents(below, all, levels-1)
			}
			continue
		}
		length := int64(binary.LittleEndian.Uint16(entry[4:]))
		first := int64(binary.LittleEndian.Uint32(entry[8:])) | int64(binary.LittleEndian.Uint16(entry[6:]))<<32
		if length > unwrittenLength {
			length -= unwrittenLength
		} else if !all {
			continue
		}
		for block := first; block < first+length; block++ {
			fs.release(block)
		}
	}
}

func (fs *extFS) release(block int64) {
	group, bit := (block-fs.firstBlock)/fs.inGroup, (block-fs.firstBlock)%fs.inGroup
	if block >= fs.firstBlock && group < int64(len(fs.bitmaps)) && fs.bitmaps[group] != nil {
		fs.bitmaps[group][bit/8] &^= 1 << (bit % 8)
	}
}
