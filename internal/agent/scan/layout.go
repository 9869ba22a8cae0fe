package scan

import (
	"encoding/binary"
	"io"
)

// layout has the file systems of an image with known free blocks.
type layout struct{ systems []fileSystem }

// fileSystem knows its free blocks.
type fileSystem interface {
	// span returns the offsets of the file system in the image.
	span() (begin, end int64)
	// at returns the state of the block at an offset from the beginning of the file system; empty if unknown.
	at(offset int64) Block
}

// extFS is an ext2, ext3 or ext4 file system. Source: Linux, Documentation/filesystems/ext4.
type extFS struct {
	image               io.ReaderAt
	begin, end          int64
	blockSize           int64
	firstBlock, inGroup int64
	bitmaps             [][]byte
	// tables are the tables of inodes, which are read for the first finding only.
	tables    []inodeTable
	inodeSize int64
	read      bool
}

const (
	extMagic      = 0xEF53
	ext64Bit      = 0x80
	extMetaGroups = 0x10
	// bitmapUnset marks a group without a written bitmap: all blocks except metadata are free.
	bitmapUnset = 0x2
	// maxGroups limits the groups of a damaged or false file system: 128 TiB with blocks of 4 KiB.
	maxGroups = 1 << 20
)

// layoutOf finds file systems at the image's beginning and in its partitions.
func layoutOf(r io.ReaderAt, size int64) *layout {
	l := &layout{}
	for _, begin := range append([]int64{0}, partitions(r, size)...) {
		if fs := readExt(r, begin, size); fs != nil {
			l.systems = append(l.systems, fs)
		} else if fs := readXFS(r, begin, size); fs != nil {
			l.systems = append(l.systems, fs)
		}
	}
	return l
}

// at returns the state of the block at an offset; empty outside of known file systems.
func (l *layout) at(offset int64) Block {
	for _, fs := range l.systems {
		if begin, end := fs.span(); offset >= begin && offset < end {
			return fs.at(offset - begin)
		}
	}
	return ""
}

func (fs *extFS) span() (begin, end int64) { return fs.begin, fs.end }

func (fs *extFS) at(offset int64) Block {
	fs.releaseInodes()
	block := offset/fs.blockSize - fs.firstBlock
	if block < 0 {
		return InUse
	}
	group, bit := block/fs.inGroup, block%fs.inGroup
	if group >= int64(len(fs.bitmaps)) || fs.bitmaps[group] == nil {
		return ""
	}
	if fs.bitmaps[group][bit/8]&(1<<(bit%8)) == 0 {
		return Free
	}
	return InUse
}

// partitions returns the offsets of a disk's partitions, by GPT or else MBR.
func partitions(r io.ReaderAt, size int64) []int64 {
	var begins []int64
	add := func(lba uint64) {
		if begin := int64(lba) * sector; lba > 0 && lba < uint64(size/sector) {
			begins = append(begins, begin)
		}
	}
	head := bytesAt(r, 0, 2*sector)
	if head == nil || head[510] != 0x55 || head[511] != 0xAA {
		return nil
	}
	if gpt := head[sector:]; string(gpt[:8]) == "EFI PART" {
		table, count, width := int64(binary.LittleEndian.Uint64(gpt[72:])), binary.LittleEndian.Uint32(gpt[80:]), binary.LittleEndian.Uint32(gpt[84:])
		if width < 128 || width > 4096 || count > 1024 {
			return nil
		}
		for i := range int64(count) {
			if entry := bytesAt(r, table*sector+i*int64(width), 48); entry != nil {
				add(binary.LittleEndian.Uint64(entry[32:]))
			}
		}
		return begins
	}
	for i := range 4 {
		add(uint64(binary.LittleEndian.Uint32(head[446+16*i+8:])))
	}
	return begins
}

// readExt reads the block bitmaps of the file system at an offset; nil without a file system.
func readExt(r io.ReaderAt, begin, size int64) *extFS {
	super := bytesAt(r, begin+1024, 1024)
	if super == nil || binary.LittleEndian.Uint16(super[0x38:]) != extMagic || super[0x18] > 6 {
		return nil
	}
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(super[at:])) }
	fs := &extFS{image: r, begin: begin, blockSize: 1024 << super[0x18], firstBlock: u32(0x14), inGroup: u32(0x20)}
	blocks, width, incompat := u32(0x04), int64(32), u32(0x60)
	if incompat&ext64Bit != 0 {
		blocks |= u32(0x150) << 32
		width = max(32, int64(binary.LittleEndian.Uint16(super[0xFE:])))
	}
	fs.end = min(size, begin+blocks*fs.blockSize)
	if incompat&extMetaGroups != 0 || fs.inGroup == 0 || fs.inGroup > 8*fs.blockSize || blocks < 0 || blocks/fs.inGroup > maxGroups {
		return nil
	}
	table := begin + (fs.firstBlock+1)*fs.blockSize
	for group := range (blocks - fs.firstBlock + fs.inGroup - 1) / fs.inGroup {
		descriptor := bytesAt(r, table+group*width, int(width))
		if descriptor == nil {
			return nil
		}
		fs.bitmaps = append(fs.bitmaps, readBitmap(r, fs, descriptor))
		fs.tables = append(fs.tables, tableOf(descriptor, u32(0x28)))
	}
	fs.inodeSize = 128
	if u32(0x4C) > 0 {
		fs.inodeSize = int64(binary.LittleEndian.Uint16(super[0x58:]))
	}
	return fs
}

// readBitmap returns a group's bitmap of blocks in use; nil if unreadable.
func readBitmap(r io.ReaderAt, fs *extFS, descriptor []byte) []byte {
	if binary.LittleEndian.Uint16(descriptor[0x12:])&bitmapUnset != 0 {
		return make([]byte, fs.blockSize)
	}
	block := int64(binary.LittleEndian.Uint32(descriptor))
	if len(descriptor) >= 64 {
		block |= int64(binary.LittleEndian.Uint32(descriptor[0x20:])) << 32
	}
	return bytesAt(r, fs.begin+block*fs.blockSize, int(fs.blockSize))
}

func bytesAt(r io.ReaderAt, offset int64, n int) []byte {
	b := make([]byte, n)
	if _, err := r.ReadAt(b, offset); err != nil {
		return nil
	}
	return b
}
