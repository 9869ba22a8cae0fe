package output

import "testing"

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "one two three": "one two\nthree", "one\ntwo\nthree": "one two\nthree", "one\n\ntwo": "one\n\ntwo",
		"one\n  two  three\nfour": "one\n  two  three\nfour", "longerword a": "longerword\na", "ä ö ü ß": "ä ö ü ß",
	} {
		if got := Wrap(text, 7); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
