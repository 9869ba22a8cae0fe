package scan

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

// secretHit is a secret in a stream.
type secretHit struct {
	kind   Kind
	what   string
	offset int64
	// sum is the SHA-256 of a random secret.
	sum string
	// own is the SHA-256 of any secret, for recognition within the process only.
	own string
	// trace is true if the donor's ID is only mentioned.
	trace bool
}

// key returns the hash for recognition.
func (h *secretHit) key() string { return cmp.Or(h.own, h.sum) }

// buffered is the number of bytes of a stream in memory.
const buffered = 1<<20 + before + after

// window is a part of a stream with its surroundings.
type window struct {
	// data has bytes before the own part, the own part, and bytes after it.
	data []byte
	// from and to limit the own part in data. Anchors outside belong to neighbouring windows.
	from, to int
	// offset is the position of data's first byte in the stream.
	offset int64
}

// windows cuts a stream into windows whose own parts are adjacent. A match that begins in the own part is complete in
// data, if not longer than after. The buffer must be larger than before plus after.
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

// streamSearch searches the secrets of one stream, window by window.
type streamSearch struct {
	*catalogue
	// name is the path of the file with the stream; empty without a file.
	name string
	// named enables secrets that are recognizable only by their names.
	named bool
	// spared is called at the first named secret, and disables them for this stream if true. May be nil.
	spared func() bool
	// decoder searches encoded content. May be nil.
	decoder *decoder
	found   func(secretHit)
	// pending are matches that may overlap later matches, by their beginning.
	pending []match
	// done has, for each form, the end of its last match; nil before the first match.
	done []int64
}

// match is a hit that may turn out to be part of another.
type match struct {
	secretHit
	end int64
	// form is the index of the form: the lower, the higher its precedence.
	form int
}

func (c *catalogue) sweep(name string, named bool, found func(secretHit)) *streamSearch {
	return &streamSearch{catalogue: c, name: name, named: named, found: found}
}

// window searches the secrets that begin in a window's own part, plain and encoded.
func (s *streamSearch) window(w *window) {
	s.secrets(w)
	if s.decoder != nil {
		s.decoder.window(w, s)
	}
	// Later findings begin after the next window's own part begins, except for text before an anchor.
	s.settle(w.offset + int64(w.to) - before)
}

// secrets searches the secrets with an anchor in the window's own part.
func (s *streamSearch) secrets(w *window) {
	s.filter.find(w.data, w.from, w.to, func(word uint16, end int) {
		at := end - s.words[word].length
		if at >= w.to {
			return
		}
		for _, number := range s.words[word].forms {
			form := &s.forms[number]
			if form.named && !s.named || s.done != nil && w.offset+int64(at) < s.done[number] {
				continue
			}
			start, whole, secret := form.at(s.name, w.data, at, s.words[word].length)
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
			if s.done == nil {
				s.done = make([]int64, len(s.forms))
			}
			s.done[number] = begin + int64(len(whole))
			s.pending = append(s.pending, match{
				secretHit: secretHit{kind: form.kind, what: form.what, offset: begin, sum: form.fingerprint(secret), own: sum([]byte(bodyOf(secret)))},
				end:       begin + int64(len(whole)),
				form:      number,
			})
		}
	})
}

// decoded adds a finding in an encoded part of the stream. A finding of the part itself has precedence.
func (s *streamSearch) decoded(h secretHit, end int64) {
	s.pending = append(s.pending, match{secretHit: h, end: max(end, h.offset+1), form: len(s.forms)})
}

// settle reports the matches that end before a position: of overlapping matches the one with the highest precedence.
func (s *streamSearch) settle(limit int64) {
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
		s.found(best.secretHit)
		s.pending = s.pending[n:]
	}
	s.pending = s.pending[:0]
}

// finish reports the remaining matches at the end of the stream.
func (s *streamSearch) finish() { s.settle(1<<63 - 1) }
