package scan

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

// hit is a secret in a stream.
type hit struct {
	kind   Kind
	what   string
	offset int64
	// sum is the SHA-256 of the secret, if that does not help to guess it.
	sum string
	// own is its SHA-256 in any case, to know it again while the program runs. It is given to nobody.
	own string
	// trace tells that the donor's ID is mentioned, not that something is it.
	trace bool
}

// key is what it is known again by.
func (h *hit) key() string { return cmp.Or(h.own, h.sum) }

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

// sweep looks for the secrets of one stream, window by window.
type sweep struct {
	*catalogue
	// named has secrets looked for as well that are told by their names alone.
	named bool
	// spared is asked when the first of these is found: whether they do not count in this stream after all. Nil says no.
	spared func() bool
	// decoder looks into what is encoded; nil leaves that.
	decoder *decoder
	found   func(hit)
	// pending are matches that a later one may lie upon, by where they begin.
	pending []match
	// done is, for each form, up to where its last match reached.
	done []int64
}

// match is a hit that may turn out to be part of another.
type match struct {
	hit
	end int64
	// form that found it: the lower the number, the more it counts.
	form int
}

func (c *catalogue) sweep(named bool, found func(hit)) *sweep {
	return &sweep{catalogue: c, named: named, found: found, done: make([]int64, len(c.forms))}
}

// window looks for each secret that begins in a window's own part, also for those that are encoded there.
func (s *sweep) window(w *window) {
	s.secrets(w)
	if s.decoder != nil {
		s.decoder.window(w, s)
	}
	// What is found from now on begins after the next window's own part does, but for what stands before its anchor.
	s.settle(w.offset + int64(w.to) - before)
}

// secrets looks for each secret whose anchor is in the window's own part.
func (s *sweep) secrets(w *window) {
	s.filter.find(w.data, w.from, w.to, func(word uint16, end int) {
		at := end - s.words[word].length
		if at >= w.to {
			return
		}
		for _, number := range s.words[word].forms {
			form := &s.forms[number]
			if form.named && !s.named || w.offset+int64(at) < s.done[number] {
				continue
			}
			start, whole, secret := form.at(w.data, at, s.words[word].length)
			if whole == nil {
				continue
			}
			if form.named && s.spared != nil {
				if s.named = !s.spared(); !s.named {
					continue
				}
				s.spared = nil
			}
			begin := w.offset + int64(start)
			s.done[number] = begin + int64(len(whole))
			s.pending = append(s.pending, match{
				hit:  hit{kind: form.kind, what: form.what, offset: begin, sum: form.fingerprint(secret), own: sum([]byte(bodyOf(secret)))},
				end:  begin + int64(len(whole)),
				form: number,
			})
		}
	})
}

// decoded takes what was found in a part of the stream that is encoded. It counts for nothing where that part
// itself was found to be something.
func (s *sweep) decoded(h hit, end int64) {
	s.pending = append(s.pending, match{hit: h, end: max(end, h.offset+1), form: len(s.forms)})
}

// settle gives out what ends before a place: of matches that lie upon each other, the one that counts most.
func (s *sweep) settle(limit int64) {
	slices.SortStableFunc(s.pending, func(a, b match) int { return cmp.Or(cmp.Compare(a.offset, b.offset), a.form-b.form) })
	for len(s.pending) > 0 {
		best, end, n := s.pending[0], s.pending[0].end, 1
		for ; n < len(s.pending) && s.pending[n].offset < end; n++ {
			end = max(end, s.pending[n].end)
			if s.pending[n].form < best.form {
				best = s.pending[n]
			}
		}
		if end > limit {
			return
		}
		s.found(best.hit)
		s.pending = s.pending[n:]
	}
	s.pending = s.pending[:0]
}

// finish gives out what is left at the stream's end.
func (s *sweep) finish() { s.settle(1<<63 - 1) }
