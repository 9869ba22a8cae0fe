package output

import (
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
