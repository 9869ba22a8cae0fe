package main

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// cell is a character with its style: the number of an SGR sequence, or empty.
type cell struct {
	r     rune
	style string
}

// screen is a terminal without a lower edge.
type screen struct {
	lines       [][]cell
	row, column int
	style       string
}

// draw applies the text of a terminal: characters, returns, colours, and the movements that package print uses.
func draw(text string) [][]cell {
	s := screen{lines: [][]cell{nil}}
	for text != "" {
		if end := sequence.FindStringSubmatchIndex(text); end != nil {
			s.obey(text[end[2]:end[3]], text[end[4]:end[5]])
			text = text[end[1]:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		s.put(r)
		text = text[size:]
	}
	for len(s.lines) > 1 && len(s.lines[len(s.lines)-1]) == 0 {
		s.lines = s.lines[:len(s.lines)-1]
	}
	return s.lines
}

// sequence is a control sequence at the start of a text: its argument and its final letter.
var sequence = regexp.MustCompile(`^\x1b\[([0-9;?]*)([A-Za-z])`)

func (s *screen) put(r rune) {
	switch r {
	case '\r':
		s.column = 0
	case '\n':
		s.row, s.column = s.row+1, 0
		if s.row == len(s.lines) {
			s.lines = append(s.lines, nil)
		}
	default:
		for len(s.lines[s.row]) <= s.column {
			s.lines[s.row] = append(s.lines[s.row], cell{r: ' '})
		}
		s.lines[s.row][s.column] = cell{r, s.style}
		s.column++
	}
}

// obey moves the cursor up (A), clears the rest of the screen (J) or of the line (K), or changes the style (m).
func (s *screen) obey(argument, letter string) {
	rest := s.lines[s.row][:min(s.column, len(s.lines[s.row]))]
	switch letter {
	case "A":
		n, _ := strconv.Atoi(argument)
		s.row = max(s.row-max(n, 1), 0)
	case "J":
		s.lines = append(s.lines[:s.row:s.row], rest)
	case "K":
		s.lines[s.row] = rest
	case "m":
		s.style = strings.TrimPrefix(argument, "0")
	}
}

func styled(text, style string) (line []cell) {
	for _, r := range text {
		line = append(line, cell{r, style})
	}
	return line
}

func plain(line []cell) string {
	var b strings.Builder
	for _, c := range line {
		b.WriteRune(c.r)
	}
	return b.String()
}

// classes of the styles that package print uses.
var classes = map[string]string{"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}

// Sizes of a character and of a line, and the margin, in pixels.
const (
	wide, high, margin = 8, 19, 16
)

// svg is the screen as a picture that follows the reader's light or dark mode.
func svg(lines [][]cell, columns int) string {
	var b strings.Builder
	width, height := columns*wide+2*margin, len(lines)*high+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
rect { fill: #f6f8fa; stroke: #d1d9e0 }
.bold { font-weight: 700 } .dim { fill: #59636e } .red { fill: #d1242f } .green { fill: #1a7f37 } .yellow { fill: #9a6700 } .cyan { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } rect { fill: #0d1117; stroke: #3d444d }
.dim { fill: #9198a1 } .red { fill: #f85149 } .green { fill: #3fb950 } .yellow { fill: #d29922 } .cyan { fill: #58a6ff }
}
</style>
<rect x="0.5" y="0.5" width="%d" height="%d" rx="6"/>
`, width, height, width, height, html.EscapeString(strings.TrimSpace(plain(lines[0]))), width-1, height-1)
	for n, line := range lines {
		for at := 0; at < len(line); {
			end := at
			for end < len(line) && line[end].style == line[at].style {
				end++
			}
			if text := plain(line[at:end]); strings.TrimSpace(text) != "" {
				class := ""
				if name := classes[line[at].style]; name != "" {
					class = fmt.Sprintf(` class="%s"`, name)
				}
				fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d"%s xml:space="preserve">%s</text>`+"\n",
					margin+at*wide, margin+n*high+high-5, (end-at)*wide, class, html.EscapeString(text))
			}
			at = end
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
