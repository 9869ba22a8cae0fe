package scan

import (
	"cmp"
	"encoding/binary"
	"io"
	"slices"
)

// xfs is a file system of XFS. Numbers are big-endian. Source: Linux, fs/xfs/libxfs/xfs_format.h.
type xfs struct {
	begin, end           int64
	blockSize, inGroup   int64
	logBegin, logEnd     int64
	free                 [][]run
	group, sector, count int64
}

// run is a range of blocks in an allocation group.
type run struct{ first, length int64 }

const (
	xfsMagic = "XFSB"
	// noBlock ends a list of blocks.
	noBlock = 0xFFFFFFFF
	// maxXFSGroups limits the groups of a damaged or false file system.
	maxXFSGroups = 1 << 16
)

// readXFS reads the free blocks of the file system at an offset; nil without a file system.
func readXFS(r io.ReaderAt, begin, size int64) *xfs {
	super := bytesAt(r, begin, 512)
	if super == nil || string(super[:4]) != xfsMagic {
		return nil
	}
	u32 := func(at int) int64 { return int64(binary.BigEndian.Uint32(super[at:])) }
	fs := &xfs{begin: begin, blockSize: u32(4), inGroup: u32(84), count: u32(88), sector: int64(binary.BigEndian.Uint16(super[102:]))}
	blocks := int64(binary.BigEndian.Uint64(super[8:]) & (1<<40 - 1)) //nolint:gosec // masked
	if fs.blockSize < 512 || fs.blockSize > 64<<10 || fs.inGroup == 0 || fs.count == 0 || fs.count > maxXFSGroups || fs.sector < 512 || fs.sector > 32<<10 {
		return nil
	}
	fs.end, fs.group = min(size, begin+blocks*fs.blockSize), fs.inGroup*fs.blockSize
	if log, shift := binary.BigEndian.Uint64(super[48:]), super[124]; log != 0 && shift < 32 {
		number, block := int64(log>>shift), int64(log&(1<<shift-1)) //nolint:gosec // used for comparisons only
		fs.logBegin = number*fs.group + block*fs.blockSize
		fs.logEnd = fs.logBegin + u32(96)*fs.blockSize
	}
	for number := range fs.count {
		free, ok := fs.freeOf(r, number)
		if !ok {
			return nil
		}
		fs.free = append(fs.free, free)
	}
	return fs
}

// freeOf reads the tree of a group's free blocks, sorted by block.
func (fs *xfs) freeOf(r io.ReaderAt, number int64) (free []run, ok bool) {
	header := bytesAt(r, fs.begin+number*fs.group+fs.sector, 64)
	if header == nil || string(header[:4]) != "XAGF" {
		return nil, false
	}
	block, levels := int64(binary.BigEndian.Uint32(header[16:])), binary.BigEndian.Uint32(header[28:])
	node, head := []byte(nil), int64(0)
	for range min(levels, 16) {
		if node, head = fs.node(r, number, block); node == nil {
			return nil, false
		}
		if binary.BigEndian.Uint16(node[4:]) == 0 {
			break
		}
		// A node has keys of eight bytes, then pointers of four.
		block = int64(binary.BigEndian.Uint32(node[head+(fs.blockSize-head)/12*8:]))
	}
	for seen := int64(0); node != nil && seen <= fs.inGroup; seen++ {
		records := int64(binary.BigEndian.Uint16(node[6:]))
		if head+records*8 > int64(len(node)) {
			return nil, false
		}
		for i := range records {
			record := node[head+i*8:]
			free = append(free, run{int64(binary.BigEndian.Uint32(record)), int64(binary.BigEndian.Uint32(record[4:]))})
		}
		next := binary.BigEndian.Uint32(node[12:])
		if next == noBlock {
			break
		}
		if node, head = fs.node(r, number, int64(next)); node == nil {
			return nil, false
		}
	}
	slices.SortFunc(free, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	return free, true
}

// node reads a block of the tree, and returns the length of its header, by the version of the format.
func (fs *xfs) node(r io.ReaderAt, number, block int64) (node []byte, head int64) {
	node = bytesAt(r, fs.begin+number*fs.group+block*fs.blockSize, int(fs.blockSize))
	if node == nil {
		return nil, 0
	}
	switch string(node[:4]) {
	case "ABTB":
		return node, 16
	case "AB3B":
		return node, 56
	default:
		return nil, 0
	}
}

func (fs *xfs) span() (begin, end int64) { return fs.begin, fs.end }

// at returns the state of a block.
func (fs *xfs) at(offset int64) Block {
	number, block := offset/fs.group, offset%fs.group/fs.blockSize
	switch {
	case offset >= fs.logBegin && offset < fs.logEnd:
		return Log
	case number >= int64(len(fs.free)):
		return InUse
	}
	free := fs.free[number]
	i, exact := slices.BinarySearchFunc(free, block, func(r run, b int64) int { return cmp.Compare(r.first, b) })
	if exact || i > 0 && block < free[i-1].first+free[i-1].length {
		return Free
	}
	return InUse
}
