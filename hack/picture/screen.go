package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// cell is a character with its style: the number of an SGR sequence, or empty.
type cell struct {
	r     rune
	style string
}

// draw applies the text of a terminal: characters, returns, colours, and the movements that package print uses.
func draw(text string) [][]cell {
	lines, row, column, style := [][]cell{nil}, 0, 0, ""
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '\r':
			column = 0
		case '\n':
			row, column = row+1, 0
			if row == len(lines) {
				lines = append(lines, nil)
			}
		case '\x1b':
			end := i + 2
			for end < len(runes) && (runes[end] == ';' || runes[end] == '?' || runes[end] >= '0' && runes[end] <= '9') {
				end++
			}
			if end >= len(runes) {
				return lines
			}
			argument := string(runes[i+2 : end])
			switch runes[end] {
			case 'A':
				n, _ := strconv.Atoi(argument)
				row = max(row-max(n, 1), 0)
			case 'J':
				lines = append(lines[:row:row], lines[row][:min(column, len(lines[row]))])
			case 'K':
				lines[row] = lines[row][:min(column, len(lines[row]))]
			case 'm':
				style = strings.TrimPrefix(argument, "0")
			}
			i = end
		default:
			for len(lines[row]) <= column {
				lines[row] = append(lines[row], cell{r: ' '})
			}
			lines[row][column] = cell{r, style}
			column++
		}
	}
	for len(lines) > 1 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
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
