package offline

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// The small XFS of the tests: blocks and their places in it. Each is as mkfs.xfs writes it, as far as wipeXFS reads it.
const (
	smallBlock  = 512
	smallBlocks = 64
	smallLog    = 32 * smallBlock
	smallTree   = 4 * smallBlock // of inodes: a node, and behind it two leaves
	smallInodes = 16 * smallBlock
	smallNames  = 8 * smallBlock // a directory's block
)

// smallXFS is a group with a log, a tree of inodes in two levels, and a directory with a removed name.
func smallXFS() bytesFile {
	b := make(bytesFile, smallBlocks*smallBlock)
	be := binary.BigEndian
	copy(b, "XFSB")
	be.PutUint32(b[4:], smallBlock)
	be.PutUint64(b[48:], smallLog/smallBlock)
	be.PutUint32(b[84:], smallBlocks)
	be.PutUint32(b[88:], 1)
	be.PutUint32(b[96:], 8)
	be.PutUint16(b[100:], 5)
	be.PutUint16(b[102:], 512)
	be.PutUint16(b[104:], 256)
	b[124] = 6
	copy(b[512:], "XAGF")
	copy(b[1024:], "XAGI")
	be.PutUint32(b[1024+20:], smallTree/smallBlock)
	copy(b[1536:], "XAFL")
	log := b[smallLog:]
	be.PutUint32(log, logRecord)
	be.PutUint32(log[12:], smallBlock)
	be.PutUint64(log[16:], 1)
	log[smallBlock+9] = 0x20
	node := b[smallTree:]
	copy(node, "IAB3")
	be.PutUint16(node[4:], 1)
	be.PutUint16(node[6:], 2)
	most := (smallBlock - 56) / 8
	for i := range 2 {
		be.PutUint32(node[56+most*4+i*4:], uint32(smallTree/smallBlock+1+i))
		leaf := b[smallTree+(1+i)*smallBlock:]
		copy(leaf, "IAB3")
		be.PutUint16(leaf[6:], 1)
		be.PutUint32(leaf[56:], smallInodes/256)
	}
	inode := b[smallInodes:]
	copy(inode, "IN")
	be.PutUint16(inode[2:], 0o040755)
	inode[4], inode[5] = 3, inExtents
	be.PutUint32(inode[76:], 1)
	be.PutUint64(inode[176+8:], smallNames/smallBlock<<21|1)
	names := b[smallNames:]
	copy(names, "XDD3")
	be.PutUint16(names[64:], 0xFFFF)
	be.PutUint16(names[66:], smallBlock-64)
	copy(names[100:], "needle")
	return b.sealed()
}

// sealed writes the checksums, as a hostile writer does.
func (b bytesFile) sealed() bytesFile {
	seal := func(at, size int, sum int64) {
		binary.LittleEndian.PutUint32(b[at+int(sum):], checksum(b[at:at+size], sum))
	}
	for i := range 3 {
		seal(smallTree+i*smallBlock, smallBlock, 52)
	}
	for i := range 32 {
		seal(smallInodes+i*256, 256, inodeSum)
	}
	seal(smallNames, smallBlock, 4)
	return b
}

// countingFile counts the bytes that are read.
type countingFile struct {
	bytesFile
	read int64
}

func (c *countingFile) ReadAt(to []byte, at int64) (int, error) {
	c.read += int64(len(to))
	return c.bytesFile.ReadAt(to, at)
}

func TestSmallXFS(t *testing.T) {
	b := smallXFS()
	if wiped, err := wipeXFS(t.Context(), b, int64(len(b))); err != nil || wiped == 0 || strings.Contains(string(b), "needle") {
		t.Errorf("wiped %d, %v, and the removed name is there: %t", wiped, err, strings.Contains(string(b), "needle"))
	}
}

// TestXFSWithLoops: each pointer of a tree leads to one leaf whose inodes lead to one large directory. The work ends before it is done.
func TestXFSWithLoops(t *testing.T) {
	b := smallXFS()
	be := binary.BigEndian
	most := (smallBlock - 56) / 8
	be.PutUint16(b[smallTree+6:], uint16(most))
	for i := range most {
		be.PutUint32(b[smallTree+56+most*4+i*4:], smallTree/smallBlock+1)
	}
	leaf := b[smallTree+smallBlock:]
	be.PutUint16(leaf[6:], uint16((smallBlock-56)/recordLength))
	for i := range (smallBlock - 56) / recordLength {
		be.PutUint32(leaf[56+i*recordLength:], smallInodes/256)
	}
	f := &countingFile{bytesFile: b.sealed()}
	if _, err := wipeXFS(t.Context(), f, int64(len(b))); err == nil || !strings.Contains(err.Error(), "loops") {
		t.Errorf("with loops: %v", err)
	}
	if most := int64(5*len(b) + zeroChunk); f.read > most {
		t.Errorf("%d bytes are read of a device of %d", f.read, len(b))
	}
}

// stoppedFile ends the context after some reads.
type stoppedFile struct {
	bytesFile
	left int
	stop func()
}

func (s *stoppedFile) ReadAt(to []byte, at int64) (int, error) {
	if s.left--; s.left == 0 {
		s.stop()
	}
	return s.bytesFile.ReadAt(to, at)
}

// TestXFSEndsWithItsContext: within a group too, which can be large.
func TestXFSEndsWithItsContext(t *testing.T) {
	for left := 1; left < 20; left++ {
		ctx, stop := context.WithCancel(t.Context())
		s := &stoppedFile{bytesFile: smallXFS(), left: left, stop: stop}
		if _, err := wipeXFS(ctx, s, int64(len(s.bytesFile))); !errors.Is(err, context.Canceled) || s.left != 0 {
			t.Errorf("stopped at read %d: %v, after %d more", left, err, -s.left)
		}
	}
}

// FuzzXFS changes bytes of a small XFS, with right checksums. The work ends, and reads no more than a few times the device.
func FuzzXFS(f *testing.F) {
	f.Add([]byte{0, 7, 1})              // a block of 513 bytes
	f.Add([]byte{0, 104, 1, 0, 105, 9}) // an inode of 265 bytes
	f.Add([]byte{0, 48, 0x80, 0, 100, 0})
	f.Add([]byte{32, 0, 1, 33, 246, 8, 34, 32, 0x82, 16, 66, 0xFF})
	f.Add([]byte{16, 72, 0, 16, 66, 0, 8, 6, 0xFF, 8, 4, 15, 8, 5, 15})
	f.Fuzz(func(t *testing.T, changes []byte) {
		c := &countingFile{bytesFile: smallXFS()}
		for ; len(changes) >= 3; changes = changes[3:] {
			c.bytesFile[int(binary.BigEndian.Uint16(changes))%len(c.bytesFile)] = changes[2]
		}
		c.sealed()
		_, err := wipeXFS(t.Context(), c, int64(len(c.bytesFile)))
		if most := int64(5*len(c.bytesFile) + zeroChunk); c.read > most {
			t.Errorf("%d bytes are read of a device of %d: %v", c.read, len(c.bytesFile), err)
		}
	})
}
