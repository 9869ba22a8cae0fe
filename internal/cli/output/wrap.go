package output

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Wrap breaks paragraphs into lines of at most width columns. Lines that begin with a blank stay as they are. A longer word
// has a line of its own.
func Wrap(text string, width int) string {
	var lines []string
	open := false // the last line is prose, and the next line of prose continues it
	for _, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == ' ' {
			lines, open = append(lines, line), false
			continue
		}
		for _, word := range strings.Fields(line) {
			last := len(lines) - 1
			if open && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
				lines[last] += " " + word
			} else {
				lines, open = append(lines, word), true
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Prose writes sentences. On a terminal, Prose breaks longer lines at words.
func Prose(w io.Writer, text string) error {
	if s, is := w.(*Safe); is && s.width > 0 {
		text = Fold(text, s.width)
	}
	_, err := io.WriteString(w, text)
	return err
}

// hangs is the last column at which the text of a list or of a table may begin.
const hangs = 24

// Fold breaks longer lines at words. The rest of a line is below its text: after the label of a row, or deeper than an item.
func Fold(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if utf8.RuneCountInString(line) <= width {
			continue
		}
		label := len(line) - len(strings.TrimLeft(line, " "))
		if at := strings.LastIndex(line[:min(hangs, len(line))], "  "); at >= 0 {
			label = len(line) - len(strings.TrimLeft(line[at:], " "))
		}
		columns := utf8.RuneCountInString(line[:label])
		indent := strings.Repeat(" ", columns)
		if label > 0 && strings.TrimSpace(line[:label]) == "" {
			indent += "  "
		}
		first, rest, _ := strings.Cut(Wrap(line[label:], width-columns), "\n")
		lines[i] = line[:label] + first
		if rest != "" {
			lines[i] += "\n" + indent + strings.ReplaceAll(Wrap(rest, width-len(indent)), "\n", "\n"+indent)
		}
	}
	return strings.Join(lines, "\n")
}
