package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// printer writes the text: a terminal gets colours, everything else plain lines. Lines break at words.
type printer struct {
	out    io.Writer
	styled bool
	steps  int
}

func newPrinter(out io.Writer, styled bool) *printer { return &printer{out: out, styled: styled} }

// columns of the text. Wider terminals get no wider lines.
const columns = 80

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

func (t *printer) paint(style, text string) string {
	if !t.styled || style == "" {
		return text
	}
	return style + text + reset
}

func (t *printer) title(on pool.Cloud) {
	write(t.out, "%s\n\n", t.paint(bold, "Kamino: golden images from a running node"))
	write(t.out, "%s\n", output.Wrap(fmt.Sprintf("A real Kubernetes control plane, a simulated %s that speaks the real protocol, and machines "+
		"whose disks are real files run on this machine. Time runs %d times as fast as in a cloud.", on.Spoken(), TimeScale), columns))
}

func (t *printer) step(title string) {
	t.steps++
	t.folded("\n", fmt.Sprintf("%-3d", t.steps), bold, title, bold)
}

func (t *printer) line(format string, args ...any) {
	t.folded("   ", "", "", fmt.Sprintf(format, args...), dim)
}

// folded writes a label and a text, whose further lines stand below its first.
func (t *printer) folded(before, label, labelStyle, text, style string) {
	indent := strings.TrimLeft(before, "\n") + strings.Repeat(" ", utf8.RuneCountInString(label))
	lines := strings.Split(output.Wrap(strings.TrimLeft(text, " "), columns-len(indent)), "\n")
	write(t.out, "%s%s%s\n", before, t.paint(labelStyle, label), t.paint(style, lines[0]))
	for _, line := range lines[1:] {
		write(t.out, "%s%s\n", indent, t.paint(style, line))
	}
}

func (t *printer) gap() { write(t.out, "\n") }

func (t *printer) event(e control.Event) {
	t.folded("   ", fmt.Sprintf("%5.1f s  ", e.Seconds), dim, e.Subject+": "+e.Text, "")
}

func (t *printer) check(claim string, err error) {
	if err != nil {
		t.folded("   ", t.sign("✗", "NO")+"  ", red, claim, "")
		t.folded("          ", "", "", err.Error(), "")
		return
	}
	t.folded("   ", t.sign("✓", "ok")+"  ", green, claim, "")
}

// sign returns the sign for a terminal, else the word.
func (t *printer) sign(sign, word string) string {
	if t.styled {
		return sign
	}
	return word
}

func (t *printer) failed(step string) {
	write(t.out, "\n%s\n", t.paint(red, "The demo failed in \""+step+"\"."))
}

// cells are the columns of a table's cells.
const cells = 24

// table prints rows of three cells, the first row as a heading. A long cell breaks at words.
func (t *printer) table(rows [][3]string) {
	const label = columns - 3 - 2*(cells+2)
	for n, row := range rows {
		first, second := strings.Split(output.Wrap(row[1], cells), "\n"), strings.Split(output.Wrap(row[2], cells), "\n")
		for i := range max(len(first), len(second)) {
			line := [3]string{}
			if i == 0 {
				line[0] = row[0]
			}
			if i < len(first) {
				line[1] = first[i]
			}
			if i < len(second) {
				line[2] = second[i]
			}
			text := strings.TrimRight(fmt.Sprintf("   %-*s  %-*s  %s", label, line[0], cells, line[1], line[2]), " ")
			if n == 0 {
				text = t.paint(bold, text)
			}
			write(t.out, "%s\n", text)
		}
	}
}
