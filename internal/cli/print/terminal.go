package print

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Terminal keeps a block of lines at the bottom of a terminal and lets other text, such as log lines,
// pass above it. Its methods may be called from several goroutines.
type Terminal struct {
	out  io.Writer
	size func() (width, height int)

	mu    sync.Mutex
	block []string
	drawn int // lines of the block that stand on the terminal now
}

// NewTerminal writes to out, or to what is below it if that is Safe: the terminal itself makes the text safe that it shows. The size is asked for at every drawing, since people resize their windows;
// a size of zero means that it is not known.
func NewTerminal(out io.Writer, size func() (width, height int)) *Terminal {
	return &Terminal{out: Raw(out), size: size}
}

// Write lets text pass above the block.
func (t *Terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var frame bytes.Buffer
	t.rewind(&frame)
	frame.WriteString("\x1b[J")
	frame.Write(safeText(text))
	if len(t.block) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		frame.WriteByte('\n')
	}
	t.paint(&frame)
	if _, err := t.out.Write(frame.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Draw replaces the block, in one write so that it doesn't flicker.
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

// Leave lets the block stand where it is as ordinary text: what is written next goes below it.
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

// paint writes the block. A line that wraps or a block taller than the window could not be rewound, so
// lines are cut and the oldest ones left out.
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

// cut shortens a line to the width, counting characters and not the escape sequences that colour them.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	var b strings.Builder
	seen, escape := 0, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case seen == width-1:
			return b.String() + reset
		default:
			seen++
		}
		b.WriteRune(r)
	}
	return b.String()
}
