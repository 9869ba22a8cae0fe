package scan

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// The beginnings of the formats of lz4: the frame, and the older one, which the kernel reads. Source: LZ4 Frame Format.
const (
	lz4Frame  = "\x04\x22\x4d\x18"
	lz4Legacy = "\x02\x21\x4c\x18"
)

const (
	// lz4Window is how far a block of a frame can refer back, and lz4Largest the largest size of a block, both in bytes.
	lz4Window  = 64 << 10
	lz4Largest = 8 << 20
)

var errLZ4 = errors.New("not lz4")

// lz4Reader unpacks lz4. Checksums are not compared: damaged content is searched as far as it can be read.
type lz4Reader struct {
	r *bufio.Reader
	// isFrame is true in a frame, with the sizes of its checksums.
	isFrame            bool
	ofBlock, ofContent int
	out                []byte // unpacked, with the window before it
	at                 int    // of the next byte to return
	err                error
	packed             []byte
}

func (z *lz4Reader) Read(p []byte) (int, error) {
	for z.at == len(z.out) && z.err == nil {
		z.err = z.next()
	}
	n := copy(p, z.out[z.at:])
	z.at += n
	if n == 0 && len(p) > 0 {
		return 0, z.err
	}
	return n, nil
}

// next unpacks the next block, or reads the beginning of the next frame.
func (z *lz4Reader) next() error {
	size, err := z.number()
	if err != nil {
		return err
	}
	switch {
	case size == binary.LittleEndian.Uint32([]byte(lz4Legacy)):
		z.isFrame = false
		return nil
	case size == binary.LittleEndian.Uint32([]byte(lz4Frame)):
		return z.header()
	case z.isFrame && size == 0:
		z.isFrame = false
		return z.skip(z.ofContent)
	}
	const plain = 1 << 31
	if size&^plain > lz4Largest+lz4Largest/255+16 || size&plain != 0 && !z.isFrame {
		return errLZ4
	}
	block, err := z.block(int(size &^ plain))
	if err != nil {
		return err
	}
	// The window stays before the block. Blocks of the older format do not refer back.
	kept := 0
	if z.isFrame {
		kept = min(len(z.out), lz4Window)
		copy(z.out, z.out[len(z.out)-kept:])
	}
	z.out, z.at = z.out[:kept], kept
	if size&plain != 0 {
		z.out = append(z.out, block...)
	} else {
		z.out, err = lz4Block(z.out, block, kept+lz4Largest)
	}
	if z.isFrame && err == nil {
		err = z.skip(z.ofBlock)
	}
	return err
}

// header reads the description of a frame.
func (z *lz4Reader) header() error {
	flags, err := z.block(2)
	if err != nil {
		return err
	}
	rest := 1 // the checksum
	if flags[0]&0x08 != 0 {
		rest += 8 // the size of the content
	}
	if flags[0]&0x01 != 0 {
		rest += 4 // the dictionary
	}
	z.isFrame, z.ofBlock, z.ofContent = true, int(flags[0]>>4&1)*4, int(flags[0]>>2&1)*4
	z.out, z.at = z.out[:0], 0
	return z.skip(rest)
}

func (z *lz4Reader) number() (uint32, error) {
	b, err := z.block(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (z *lz4Reader) block(size int) ([]byte, error) {
	if cap(z.packed) < size {
		z.packed = make([]byte, size)
	}
	_, err := io.ReadFull(z.r, z.packed[:size])
	return z.packed[:size], err
}

func (z *lz4Reader) skip(n int) error {
	_, err := z.r.Discard(n)
	return err
}

// lz4Block unpacks a block behind earlier content, up to a size of both. Source: LZ4 Block Format.
func lz4Block(out, block []byte, limit int) ([]byte, error) {
	length := func(n int) (int, bool) {
		for more := n == 15; more; {
			if len(block) == 0 || n > limit {
				return 0, false
			}
			n += int(block[0])
			more = block[0] == 255
			block = block[1:]
		}
		return n, true
	}
	for len(block) > 0 {
		token := block[0]
		block = block[1:]
		literals, ok := length(int(token >> 4))
		if !ok || literals > len(block) || len(out)+literals > limit {
			return out, errLZ4
		}
		out, block = append(out, block[:literals]...), block[literals:]
		if len(block) == 0 {
			return out, nil // the last sequence has no match
		}
		if len(block) < 2 {
			return out, errLZ4
		}
		back := int(binary.LittleEndian.Uint16(block))
		block = block[2:]
		match, ok := length(int(token & 15))
		if match += 4; !ok || back == 0 || back > len(out) || len(out)+match > limit {
			return out, errLZ4
		}
		for match > 0 { // a match may overlap what it adds
			from := len(out) - back
			part := min(match, back)
			out = append(out, out[from:from+part]...)
			match -= part
		}
	}
	return out, nil
}
