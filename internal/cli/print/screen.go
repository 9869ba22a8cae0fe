package print

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cli/output"
)

// Screen shows one text again and again: on a terminal in place, else below each other after a change.
type Screen struct {
	out  io.Writer
	size func() (width, height int)
	last []byte
	// width and height of the last frame.
	width, height int
}

// NewScreen writes to out. Each draw calls size, because users resize windows; zero means that out is no terminal.
func NewScreen(out io.Writer, size func() (width, height int)) *Screen {
	return &Screen{out: out, size: size}
}

// Draw shows the text. On a terminal, Draw writes over the last text in one write, so that the text does not flicker.
// Draw cuts the text at the window's size: a wrapped line or a scrolled screen could not be drawn over.
func (s *Screen) Draw(text []byte) error {
	width, height := s.size()
	if bytes.Equal(text, s.last) && width == s.width && height == s.height {
		return nil
	}
	first := s.last == nil
	s.last, s.width, s.height = bytes.Clone(text), width, height
	if width == 0 {
		_, err := s.out.Write(text)
		return err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > narrow { // a sentence: tables are never wider
			line = output.Wrap(line, width)
		}
		lines = append(lines, strings.Split(line, "\n")...)
	}
	if height > 2 && len(lines) > height-1 {
		hidden := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines: use a higher window, or name a pool", hidden))
	}
	var frame bytes.Buffer
	if first {
		frame.WriteString("\x1b[2J")
	}
	frame.WriteString("\x1b[H")
	for _, line := range lines {
		frame.WriteString(cut(safeLine(line), width))
		frame.WriteString("\x1b[K\n")
	}
	frame.WriteString("\x1b[J")
	_, err := output.Raw(s.out).Write(frame.Bytes())
	return err
}

// colours are the allowed sequences in a line of a Terminal.
var colours = []string{reset, green, red, yellow, dim, bold}

// safeLine is one line of a Terminal: safeLine keeps Kamino's colours, and removes line breaks.
func safeLine(line string) string {
	var b strings.Builder
next:
	for line != "" {
		for _, colour := range colours {
			if rest, found := strings.CutPrefix(line, colour); found {
				b.WriteString(colour)
				line = rest
				continue next
			}
		}
		r, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		if r == '\n' || r == '\t' || r == '\r' {
			r = ' '
		}
		b.WriteRune(output.Visible(r))
	}
	return b.String()
}
