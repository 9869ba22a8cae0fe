package main

import (
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	for text, want := range map[string]string{
		"one\r\ntwo\r\n": "one|two",
		"old line\r\nold\r\n\x1b[2A\rnew\x1b[K\n\x1b[J": "new",
		"a\r\nb\r\n\x1b[1A\rB\x1b[K\nc":                 "a|B|c",
		"\x1b[32mok\x1b[0m done":                        "ok done",
	} {
		var lines []string
		for _, line := range draw(text) {
			lines = append(lines, plain(line))
		}
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if line := draw("\x1b[32mok\x1b[0m done")[0]; line[0].style != "32" || line[3].style != "" {
		t.Errorf("the styles are %v", line)
	}
}

func TestSVG(t *testing.T) {
	picture := svg(draw("\x1b[32m<ok>\x1b[0m done"), 20)
	for _, part := range []string{`class="green"`, "&lt;ok&gt;", " done</text>", `width="192"`} {
		if !strings.Contains(picture, part) {
			t.Errorf("no %s in:\n%s", part, picture)
		}
	}
}
