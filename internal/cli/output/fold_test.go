package output

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestFold: long lines break at words, and the rest hangs below the text.
func TestFold(t *testing.T) {
	for name, of := range map[string]struct{ text, want string }{
		"a short line":   {"a line", "a line"},
		"a sentence":     {"The pool has one node and one version.", "The pool has one\nnode and one\nversion."},
		"an item":        {"  copy the disk of the node", "  copy the disk of\n    the node"},
		"a row":          {"warn  disk  the disk is full", "warn  disk  the disk\n            is full"},
		"a long word":    {"see https://example.com/page", "see\nhttps://example.com/page"},
		"several lines":  {"one\n\nThe pool has one node.\n", "one\n\nThe pool has one\nnode.\n"},
		"other alphabet": {"…  für die größte Übung", "…  für die größte\n   Übung"},
	} {
		if got := Fold(of.text, 20); got != of.want {
			t.Errorf("%s: %q, want %q", name, got, of.want)
		}
	}
}

// TestFoldLosesNothing: all words stay in order, and only a single word is wider than the terminal.
func TestFoldLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`( {0,4}([a-zü…]{1,12} {1,3}){0,9}[a-z]{1,9}\n){0,4}`).Draw(t, "text")
		folded := Fold(text, 60)
		if got, want := strings.Fields(folded), strings.Fields(text); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("%q became %q", text, folded)
		}
		for _, line := range strings.Split(folded, "\n") {
			if utf8.RuneCountInString(line) > 60 {
				t.Fatalf("%q is wider", line)
			}
		}
	})
}

// TestProse folds on a terminal only.
func TestProse(t *testing.T) {
	for width, want := range map[int]string{0: "The pool has one node.\n", 12: "The pool has\none node.\n"} {
		var out strings.Builder
		s := NewSafe(&out)
		s.On(width)
		if err := Prose(s, "The pool has one node.\n"); err != nil || out.String() != want {
			t.Errorf("width %d: %q, %v", width, out.String(), err)
		}
	}
}
