// Package wording formats parts of sentences: counted nouns, long lists of names, durations, and foreign text. The package decides no
// content.
package wording

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Count writes a number with its noun: "1 node", "3 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are writes a number with its noun and the verb: "1 node is", "3 nodes are".
func Are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return Count(n, noun) + " are"
}

// Need writes a number with its noun and the verb: "1 thing needs", "3 things need".
func Need(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " needs"
	}
	return Count(n, noun) + " need"
}

// Were writes a number with its noun and the verb: "1 node was", "3 nodes were".
func Were(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return Count(n, noun) + " were"
}

// maxNames limits the names in a sentence; further names are counted.
const maxNames = 10

// Names writes the first ten names, and the number of further names.
func Names(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// Duration writes a duration for people: "0.4s", "41s", "4m12s", "1h04m", "3d2h". A negative duration, the result of two
// different clocks, is "0s".
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < 10*time.Second:
		return tenths(d)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// tenths writes a short duration with one decimal digit, and without a zero digit.
func tenths(d time.Duration) string {
	n := int(d / (100 * time.Millisecond))
	if n%10 == 0 {
		return fmt.Sprintf("%ds", n/10)
	}
	return fmt.Sprintf("%d.%ds", n/10, n%10)
}

// Controls reports whether a character belongs to C0, DEL or C1, or changes the direction of text. Such characters of
// another account hide text from a reader.
func Controls(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Capital begins a sentence with a capital letter.
func Capital(text string) string {
	if text == "" {
		return ""
	}
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:]
}
