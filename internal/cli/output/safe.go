package output

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/wording"
)

// replacement replaces a control character, with the width of one character, so that tables stay aligned.
const replacement = utf8.RuneError

// Safe is the writer of all verbs. Names, tags and errors come from clusters and clouds, where other accounts write. A
// control character could hide text, move the cursor or write to the clipboard of the reader.
type Safe struct {
	mu  sync.Mutex
	out io.Writer
	// begun are the first bytes of an incomplete character. returned is a pending carriage return.
	begun    []byte
	returned bool
	// width of the terminal; zero without one.
	width int
}

// NewSafe writes to out.
func NewSafe(out io.Writer) *Safe { return &Safe{out: out} }

// On sets the width of the terminal.
func (s *Safe) On(width int) { s.width = width }

// Write writes text, and replaces control characters and invalid bytes, except newlines and tabs.
func (s *Safe) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := append(s.begun, text...)
	s.begun = nil
	shown := make([]byte, 0, len(rest))
	for len(rest) > 0 {
		if !utf8.FullRune(rest) {
			s.begun = rest
			break
		}
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		if s.returned && r != '\n' {
			shown = utf8.AppendRune(shown, replacement)
		}
		if s.returned = r == '\r'; !s.returned { // a line of another system may end with both
			shown = utf8.AppendRune(shown, Visible(r))
		}
	}
	if len(shown) == 0 {
		return len(text), nil
	}
	if _, err := s.out.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Raw is the writer for Kamino's own sequences for colours and the cursor: the writer below a Safe. The caller must make
// all other text safe.
func Raw(w io.Writer) io.Writer {
	if s, is := w.(*Safe); is {
		return s.out
	}
	return w
}

// Visible is the character, or the replacement of a control character.
func Visible(r rune) rune {
	if r == '\n' || r == '\t' || !wording.Controls(r) {
		return r
	}
	return replacement
}

// SafeText is a text in the form of Safe.
func SafeText(text []byte) []byte {
	var out bytes.Buffer
	_, _ = NewSafe(&out).Write(text)
	return out.Bytes()
}

// escaped is equivalent JSON without control characters that JSON allows in a string.
func escaped(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// hidden reports whether a character of a JSON text controls a terminal. Newlines separate values.
func hidden(r rune) bool { return wording.Controls(r) && r != '\n' && r != '\t' }
