package print

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cli/output"
)

// drawn are the lines of a frame without the sequences that move and erase.
func drawn(frame string) []string {
	for _, sequence := range []string{"\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"} {
		frame = strings.ReplaceAll(frame, sequence, "")
	}
	return strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
}

func TestScreenDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	width, height := 40, 5
	s := NewScreen(output.NewSafe(&out), func() (int, int) { return width, height })
	frame := func(text string) string {
		t.Helper()
		out.Reset()
		if err := s.Draw([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := frame("one\ntwo\n"); got != "\x1b[2J\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J" {
		t.Errorf("first frame %q", got)
	}
	if got := frame("one\ntwo\n"); got != "" {
		t.Errorf("an equal text is drawn again: %q", got)
	}
	if got := frame("one\n"); got != "\x1b[Hone\x1b[K\n\x1b[J" {
		t.Errorf("second frame %q", got)
	}
	width = 3
	if got := frame("one two\n"); strings.Contains(got, "two") {
		t.Errorf("a line is wider than the window: %q", got)
	}
	width, height = 60, 5
	want := []string{"1", "2", "3", "… 3 more lines: use a higher window, or name a pool"}
	if diff := cmp.Diff(want, drawn(frame("1\n2\n3\n4\n5\n6\n"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := frame("evil\x1b]52;c;x\x07\n"); strings.Contains(got, "\x1b]") || strings.Contains(got, "\x07") {
		t.Errorf("the text controls the terminal: %q", got)
	}
}

// TestScreenAtAnyWidth: no line is wider than the window, and a sentence is whole.
func TestScreenAtAnyWidth(t *testing.T) {
	sentence := strings.TrimSpace(strings.Repeat("words of a long sentence ", 8))
	for width := 10; width < 120; width++ {
		var out bytes.Buffer
		s := NewScreen(&out, func() (int, int) { return width, 0 })
		if err := s.Draw([]byte("A   TABLE\n" + strings.Repeat("x", 80) + "\n\n" + sentence + "\n")); err != nil {
			t.Fatal(err)
		}
		lines := drawn(strings.ReplaceAll(out.String(), reset, ""))
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width+1 { // the sign of a cut
				t.Errorf("width %d: %q", width, line)
			}
		}
		if got := strings.Join(lines[3:], " "); got != sentence {
			t.Errorf("width %d: the sentence is %q", width, got)
		}
	}
}

func TestScreenWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, func() (int, int) { return 0, 0 })
	for _, text := range []string{"one\n", "one\n", "two\n"} {
		if err := s.Draw([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "one\ntwo\n" {
		t.Errorf("%q", out.String())
	}
}
