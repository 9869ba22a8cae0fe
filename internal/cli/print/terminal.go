package print

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cli/output"
)

// Terminal keeps a block of lines at the bottom of a terminal, and prints other text, such as logs, above the block. Safe
// for concurrent use.
type Terminal struct {
	out  io.Writer
	size func() (width, height int)

	mu    sync.Mutex
	block []string
	drawn int // lines of the block on the screen
}

// NewTerminal writes to out, or to the writer below a Safe, because the Terminal itself makes text safe. Each draw calls
// size, because users resize windows; zero means unknown.
func NewTerminal(out io.Writer, size func() (width, height int)) *Terminal {
	return &Terminal{out: output.Raw(out), size: size}
}

// Write prints text above the block.
func (t *Terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var frame bytes.Buffer
	t.rewind(&frame)
	frame.WriteString("\x1b[J")
	frame.Write(output.SafeText(text))
	if len(t.block) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		frame.WriteByte('\n')
	}
	t.paint(&frame)
	if _, err := t.out.Write(frame.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Draw replaces the block in one write, so that the block does not flicker.
func (t *Terminal) Draw(lines []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.block = lines
	var frame bytes.Buffer
	t.rewind(&frame)
	t.paint(&frame)
	frame.WriteString("\x1b[J")
	_, err := t.out.Write(frame.Bytes())
	return err
}

// Leave turns the block into ordinary text: further text goes below the block.
func (t *Terminal) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.block, t.drawn = nil, 0
}

// rewind moves the cursor to the first line of the block.
func (t *Terminal) rewind(frame *bytes.Buffer) {
	if t.drawn > 0 {
		fmt.Fprintf(frame, "\x1b[%dA\r", t.drawn)
	}
	t.drawn = 0
}

// paint writes the block. A wrapped line or a block taller than the window could not be rewound, so paint cuts lines and
// omits the oldest lines.
func (t *Terminal) paint(frame *bytes.Buffer) {
	width, height := t.size()
	shown := t.block
	if height > 1 && len(shown) > height-1 {
		shown = shown[len(shown)-(height-1):]
	}
	for _, line := range shown {
		frame.WriteString(cut(safeLine(line), width))
		frame.WriteString("\x1b[K\n")
	}
	t.drawn = len(shown)
}

// cut shortens a line to the width with "…" at the end, and does not count escape sequences for colours.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	var b strings.Builder
	seen, escape, before := 0, false, 0
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case seen == width:
			return b.String()[:before] + "…" + reset
		default:
			before, seen = b.Len(), seen+1
		}
		b.WriteRune(r)
	}
	return b.String()
}
