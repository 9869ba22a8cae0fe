package print

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/wording"
)

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// screen is a partial terminal for the block: text, line feeds, and the four sequences that move and erase.
type screen struct {
	lines    []string
	row, col int
}

func (s *screen) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		switch {
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexAny(rest, "AJKm")
			n, _ := strconv.Atoi(rest[2:end])
			switch rest[end] {
			case 'A':
				s.row -= n
			case 'J':
				s.cutLine()
				s.lines = s.lines[:min(s.row+1, len(s.lines))]
			case 'K':
				s.cutLine()
			}
			rest = rest[end+1:]
		case rest[0] == '\n':
			s.row, s.col = s.row+1, 0
			rest = rest[1:]
		case rest[0] == '\r':
			s.col = 0
			rest = rest[1:]
		default:
			for len(s.lines) <= s.row {
				s.lines = append(s.lines, "")
			}
			line := s.lines[s.row]
			s.lines[s.row] = line[:min(s.col, len(line))] + rest[:1] + line[min(s.col+1, len(line)):]
			s.col++
			rest = rest[1:]
		}
	}
	return len(text), nil
}

func (s *screen) cutLine() {
	if s.row < len(s.lines) {
		s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
	}
}

// shown is the text on the screen, without empty lines at its end.
func (s *screen) shown() []string {
	lines := slices.Clone(s.lines)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// For all orders of draws and logs, the screen shows the logs in order and the last block below.
func TestTheBlockStaysBelowTheLogs(t *testing.T) {
	word := rapid.StringMatching(`[a-z]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		s := &screen{}
		terminal := NewTerminal(s, func() (int, int) { return 80, 24 })
		var logs, block []string
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "log") {
				line := word.Draw(t, "line")
				logs = append(logs, line)
				_, _ = terminal.Write([]byte(line + "\n"))
			} else {
				block = rapid.SliceOfN(word, 1, 6).Draw(t, "block")
				_ = terminal.Draw(block)
			}
		}
		if diff := cmp.Diff(append(slices.Clone(logs), block...), s.shown()); diff != "" {
			t.Fatalf("screen (-want +got):\n%s", diff)
		}
	})
}

func TestBlockStaysInWindow(t *testing.T) {
	var out bytes.Buffer
	terminal := NewTerminal(&out, func() (int, int) { return 10, 4 })
	if err := terminal.Draw([]string{"one", "two", "three", "four", "a line that is much too long", bold + "coloured" + reset + "abcdefgh"}); err != nil {
		t.Fatal(err)
	}
	want := "four\x1b[K\na line th…" + reset + "\x1b[K\n" + bold + "coloured" + reset + "a…" + reset + "\x1b[K\n\x1b[J"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
	}
}

func TestFinishedBlockStays(t *testing.T) {
	s := &screen{}
	terminal := NewTerminal(s, func() (int, int) { return 0, 0 })
	_ = terminal.Draw([]string{"done"})
	terminal.Leave()
	_, _ = terminal.Write([]byte("next\n"))
	if diff := cmp.Diff([]string{"done", "next"}, s.shown()); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

// TestCutLineEndsWithSign: a cut line ends with a sign, and a line that fits stays whole, whatever its colours.
func TestCutLineEndsWithSign(t *testing.T) {
	colored := Style{Color: true}.paint(green, "ready")
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"version 2026.03.09", 18, "version 2026.03.09"},
		{"version 2026.03.09", 17, "version 2026.03.…" + reset},
		{colored, 5, colored},
		{colored, 4, green + "rea…" + reset},
		{"any", 0, "any"},
	} {
		if got := cut(c.line, c.width); got != c.want {
			t.Errorf("%q cut to %d: %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

// TestATerminalShowsNoForeignSequences: only Kamino's sequences, and each line stays one line.
func TestATerminalShowsNoForeignSequences(t *testing.T) {
	var out bytes.Buffer
	terminal := NewTerminal(output.NewSafe(&out), func() (int, int) { return 200, 24 })
	for _, text := range []string{"a\x1b]52;c;cm0gLXJm\x07b", "a\x1b[8mb\x1b[0m", "a\u202eb", "ab\b\x7fc\x00", "a\rb"} {
		out.Reset()
		_ = terminal.Draw([]string{green + "ok" + reset + " " + text + "|"})
		_, _ = terminal.Write([]byte(text))
		shown := out.String()
		for _, own := range append([]string{"\x1b[J", "\x1b[K", "\x1b[1A\r"}, colours...) {
			shown = strings.ReplaceAll(shown, own, "")
		}
		if strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && wording.Controls(r) }) || !strings.Contains(out.String(), green+"ok"+reset) {
			t.Errorf("%q: %q", text, out.String())
		}
	}
	if got := safeLine("a\nb\tc"); got != "a b c" {
		t.Errorf("%q", got)
	}
}
