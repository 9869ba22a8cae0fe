package wording

import (
	"strings"
	"testing"
	"time"
)

func TestNeed(t *testing.T) {
	for n, want := range map[int]string{0: "0 things need", 1: "1 thing needs", 2: "2 things need"} {
		if got := Need(n, "thing"); got != want {
			t.Errorf("Need(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct {
		n                int
		count, are, were string
	}{
		{0, "0 nodes", "0 nodes are", "0 nodes were"},
		{1, "1 node", "1 node is", "1 node was"},
		{2, "2 nodes", "2 nodes are", "2 nodes were"},
	} {
		if got := Count(test.n, "node"); got != test.count {
			t.Errorf("Count(%d) = %q, want %q", test.n, got, test.count)
		}
		if got := Are(test.n, "node"); got != test.are {
			t.Errorf("Are(%d) = %q, want %q", test.n, got, test.are)
		}
		if got := Were(test.n, "node"); got != test.were {
			t.Errorf("Were(%d) = %q, want %q", test.n, got, test.were)
		}
	}
}

func TestNames(t *testing.T) {
	if got := Names([]string{"node-1"}); got != "node-1" {
		t.Errorf("one name is %q", got)
	}
	names := strings.Fields("a b c d e f g h i j k l")
	for n, want := range map[int]string{
		0: "", 1: "a", 2: "a, b", 10: "a, b, c, d, e, f, g, h, i, j", 11: "a, b, c, d, e, f, g, h, i, j and 1 more",
		12: "a, b, c, d, e, f, g, h, i, j and 2 more",
	} {
		if got := Names(names[:n]); got != want {
			t.Errorf("%d names are %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 400 * time.Millisecond: "0.4s", time.Second: "1s", 9900 * time.Millisecond: "9.9s",
		41 * time.Second: "41s", 59900 * time.Millisecond: "59s", 252 * time.Second: "4m12s", time.Hour: "1h00m", 26 * time.Hour: "1d2h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%s) = %s, want %s", d, got, want)
		}
	}
}

// Only the number one has the singular, in each form.
func TestOneAndMany(t *testing.T) {
	for n := range 200 {
		for name, form := range map[string]func(int, string) string{"Count": Count, "Are": Are, "Were": Were} {
			message := form(n, "pod")
			if one := strings.HasPrefix(message, "1 pod") && !strings.HasPrefix(message, "1 pods"); one != (n == 1) {
				t.Errorf("%s(%d) = %q", name, n, message)
			}
			if !strings.HasPrefix(message, Count(n, "pod")) {
				t.Errorf("%s(%d) = %q does not begin as it is counted", name, n, message)
			}
		}
		if verb := strings.TrimPrefix(Are(n, "pod"), Count(n, "pod")); verb != " is" && verb != " are" || (verb == " is") != (n == 1) {
			t.Errorf("%d: %q", n, verb)
		}
		if verb := strings.TrimPrefix(Were(n, "pod"), Count(n, "pod")); verb != " was" && verb != " were" || (verb == " was") != (n == 1) {
			t.Errorf("%d: %q", n, verb)
		}
	}
}

// A longer time never reads as a shorter time, and no time is negative.
func TestDurations(t *testing.T) {
	for d := -time.Minute; d < 72*time.Hour; d += 17 * time.Second {
		message := Duration(d)
		if message == "" || strings.Contains(message, "-") {
			t.Errorf("Duration(%s) = %q", d, message)
		}
		if (message == "0s") != (d < 100*time.Millisecond) {
			t.Errorf("Duration(%s) = %q", d, message)
		}
		unit := map[bool]string{d >= 24*time.Hour: "d", d >= time.Hour && d < 24*time.Hour: "h", d >= time.Minute && d < time.Hour: "m"}[true]
		if !strings.Contains(message, unit) {
			t.Errorf("Duration(%s) = %q does not show its largest unit", d, message)
		}
	}
}

func TestControls(t *testing.T) {
	for _, r := range "\x00\n\t\x1b\x1f\x7f\u0080\u009b\u009f\u061c\u200e\u200f\u202a\u202e\u2066\u2069" {
		if !Controls(r) {
			t.Errorf("%U passes", r)
		}
	}
	for _, r := range " aä€\u00a0\u200d\u2065漢✓" {
		if Controls(r) {
			t.Errorf("%U is refused", r)
		}
	}
}

func TestCapital(t *testing.T) {
	for text, want := range map[string]string{"": "", "a node": "A node", "Élan": "Élan", "élan": "Élan", "3 nodes": "3 nodes"} {
		if got := Capital(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
