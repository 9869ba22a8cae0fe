package wording

import (
	"strings"
	"testing"
	"time"
)

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
	names := strings.Fields("a b c d e f g h i j k l")
	for n, want := range map[int]string{
		0: "", 1: "a", 2: "a, b", 10: "a, b, c, d, e, f, g, h, i, j", 11: "a, b, c, d, e, f, g, h, i, j and 1 more", 12: "a, b, c, d, e, f, g, h, i, j and 2 more",
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
