package scan

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Block is the state of a block in an image.
type Block string

// The states of a block.
const (
	Free  Block = "free block"
	InUse Block = "block in use"
	// Log is the log of XFS. No clone reads it after a clean unmount.
	Log Block = "block of the log"
)

// Image searches a raw disk image or a block device completely. File systems (ext4) are parsed only to distinguish free
// blocks from blocks in use.
func Image(ctx context.Context, name string, o Options) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, fmt.Errorf("%s is empty", name)
	}
	s, err := newScanner(o)
	if err != nil {
		return nil, err
	}
	s.report.Files = 1
	layout := layoutOf(f, size)
	found := func(h secretHit) {
		block, kept := layout.at(h.offset), ""
		isUsed := block == InUse || block == Log && !s.NoLog
		switch {
		case h.key() != "" && s.Known[h.key()] != "":
			kept = s.Known[h.key()]
		case isUsed && h.trace:
			kept = "a mention in use: verification of the tree covers files, and no clone reads the file system's journal"
		case isUsed && s.FreeOnly && h.kind != Identity:
			kept = "in a file: verify the tree"
		}
		s.add(Finding{Offset: h.offset, Block: block, Kind: h.kind, What: h.what, SHA256: h.sum, Kept: kept})
	}
	secrets, decoder := everything().sweep("", false, found), s.decoder("", size)
	secrets.decoder = decoder
	err = extents(f, size, func(offset, length int64) error {
		s.report.Bytes += length
		return windows(io.NewSectionReader(f, offset, length), offset, s.buffer, func(w *window) error {
			*decoder.left = maxUnpacked
			secrets.window(w)
			w.binaryKeys(true, found)
			s.values(w, layout)
			if len(s.known.paths) > 0 {
				s.known.ids(w, found)
				s.known.journals(w, found)
				s.known.blocks(w, found)
			}
			return ctx.Err()
		})
	})
	if err != nil {
		return s.report, fmt.Errorf("read %s: %w", name, err)
	}
	secrets.finish()
	return s.report, nil
}

// values searches the donor's values in free blocks and a wiped log. Files may have a value by design, and the search of the tree decides about them.
func (s *scanner) values(w *window, layout *layout) {
	if s.literals == nil {
		return
	}
	s.literals.find("", w, func(h secretHit) {
		if block := layout.at(h.offset); block == Free || block == Log && s.NoLog {
			s.add(Finding{Offset: h.offset, Block: block, Kind: h.kind, What: h.what})
		}
	})
}
