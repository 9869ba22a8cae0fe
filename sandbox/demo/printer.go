package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// printer writes the text: a terminal gets colours, everything else plain lines.
type printer struct {
	out    io.Writer
	styled bool
	steps  int
}

func newPrinter(out io.Writer, styled bool) *printer { return &printer{out: out, styled: styled} }

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

func (t *printer) paint(style, text string) string {
	if !t.styled {
		return text
	}
	return style + text + reset
}

func (t *printer) title(on pool.Cloud) {
	write(t.out, "%s\n\n", t.paint(bold, "Kamino: golden images from a running node"))
	write(t.out, "A real Kubernetes control plane, a simulated %s that speaks the real protocol, and machines whose disks\n"+
		"are real files run on this machine. Time runs %d times as fast as in a cloud.\n", on.Spoken(), TimeScale)
}

func (t *printer) step(title string) {
	t.steps++
	write(t.out, "\n%s\n", t.paint(bold, fmt.Sprintf("%d  %s", t.steps, title)))
}

func (t *printer) line(format string, args ...any) {
	write(t.out, "   %s\n", t.paint(dim, fmt.Sprintf(format, args...)))
}

// footnote explains the figures.
func (t *printer) footnote() {
	t.gap()
	t.line("These are sandbox times. Machines and waits are simulated, %d times as fast as in a cloud. The times in", TimeScale)
	t.line("brackets are multiplied by %d. The table compares the remaining work; how long the work takes depends on", TimeScale)
	t.line("your cloud.")
}

func (t *printer) gap() { write(t.out, "\n") }

func (t *printer) event(e control.Event) {
	write(t.out, "   %s  %s: %s\n", t.paint(dim, fmt.Sprintf("%5.1f s", e.Seconds)), e.Subject, e.Text)
}

func (t *printer) check(claim string, err error) {
	if err != nil {
		write(t.out, "   %s  %s\n          %s\n", t.paint(red, t.sign("✗", "NO")), claim, err)
		return
	}
	write(t.out, "   %s  %s\n", t.paint(green, t.sign("✓", "ok")), claim)
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

// table prints rows of three cells, the first row as a heading.
func (t *printer) table(rows [][3]string) {
	var width [3]int
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for n, row := range rows {
		line := "   "
		for i, cell := range row {
			line += cell + strings.Repeat(" ", width[i]-len([]rune(cell))+3)
		}
		line = strings.TrimRight(line, " ")
		if n == 0 {
			line = t.paint(bold, line)
		}
		write(t.out, "%s\n", line)
	}
}
