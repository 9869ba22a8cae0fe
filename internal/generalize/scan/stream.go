package scan

import (
	"bytes"
	"errors"
	"io"
)

// hit is a secret in a stream.
type hit struct {
	kind   Kind
	what   string
	offset int64
	// sum is the SHA-256 of the secret, if that does not help to guess it.
	sum string
	// trace tells that the donor's ID is mentioned, not that something is it.
	trace bool
}

// buffered is how much of a stream is held at a time.
const buffered = 1<<20 + before + after

// window is a piece of a stream with what is needed around it.
type window struct {
	// data holds bytes before own, own, and bytes after it.
	data []byte
	// from and to limit own in data: an anchor in it is this window's, any other is a neighbour's.
	from, to int
	// offset in the stream of data's first byte.
	offset int64
}

// windows cuts a stream into windows whose own parts join without a gap. A match that begins in a window is
// whole in it, as long as it is no longer than after. The buffer must be larger than before and after.
func windows(r io.Reader, offset int64, buffer []byte, visit func(*window) error) error {
	w := window{offset: offset}
	filled := 0
	for {
		n, err := io.ReadFull(r, buffer[filled:])
		filled += n
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			w.data, w.to = buffer[:filled], filled
			return visit(&w)
		case err != nil:
			return err
		}
		w.data, w.to = buffer[:filled], filled-after
		if err := visit(&w); err != nil {
			return err
		}
		// The next window begins with the bytes before its own part.
		drop := max(0, w.to-before)
		copy(buffer, buffer[drop:filled])
		filled -= drop
		w.offset += int64(drop)
		w.from = w.to - drop
	}
}

// secrets calls found for each secret whose anchor is in the window's own part.
func (w *window) secrets(found func(hit)) {
	forms := signatures()
	for i := range forms {
		s := &forms[i]
		anchor := []byte(s.anchor)
		for at := w.from; at < w.to; {
			next := bytes.Index(w.data[at:min(len(w.data), w.to+len(anchor)-1)], anchor)
			if next < 0 {
				break
			}
			at += next
			if start, match := s.at(w.data, at); match != nil {
				found(hit{kind: s.kind, what: s.what, offset: w.offset + int64(start), sum: s.fingerprint(match)})
				at = max(at+len(anchor), min(start+len(match), w.to))
				continue
			}
			at += len(anchor)
		}
	}
}

// at returns the match that the anchor at a position is part of.
func (s *signature) at(data []byte, at int) (int, []byte) {
	start := max(0, at-s.back)
	reach := after
	if s.reach > 0 {
		reach = s.reach
	}
	text := data[start:min(len(data), at+reach)]
	// A match ends where the anchor does at the earliest, so one before it is no match of this anchor.
	for from := 0; from <= at-start; {
		place := s.match.FindIndex(text[from:])
		if place == nil || start+from+place[0] > at {
			return 0, nil
		}
		if end := start + from + place[1]; end >= at+len(s.anchor) {
			match := text[from+place[0] : from+place[1]]
			if s.keep != nil && !s.keep(match) {
				return 0, nil
			}
			return start + from + place[0], match
		}
		from += place[1]
	}
	return 0, nil
}
