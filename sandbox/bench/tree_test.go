package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTreeLimits(t *testing.T) {
	seconds := func(s float64) []time.Duration { return []time.Duration{time.Duration(s * float64(time.Second))} }
	tree := Tree{Files: 7, Bytes: 3 << 20, Cats: seconds(0.5), Generalize: seconds(2.1), Verify: seconds(1.5)}
	r := Report{Tree: &tree}
	if missed := r.Missed(); !slices.Equal(missed, []string{"kamino-node generalize"}) {
		t.Errorf("beyond its limit: %v", missed)
	}
	var text strings.Builder
	want := "| CPU of `kamino-node generalize` against `cat` | 4.20 (2.10 s) | at most 4 |\n| CPU of `kamino-node verify` against `cat` | 3.00 (1.50 s) | at most 3 |\n"
	if err := r.Markdown(&text); err != nil || !strings.Contains(text.String(), want) {
		t.Errorf("%v\n%s", err, &text)
	}
}

// TestTreeIsRepeatable: two trees have the same files, so that tries measure the same work.
func TestTreeIsRepeatable(t *testing.T) {
	var sizes []int64
	var parts [][]byte
	for range 2 {
		root := t.TempDir()
		size, err := makeTree(root)
		if err != nil {
			t.Fatal(err)
		}
		part, err := os.ReadFile(filepath.Join(root, "opt/agent/99/part-19999"))
		if err != nil {
			t.Fatal(err)
		}
		sizes, parts = append(sizes, size), append(parts, part)
	}
	if sizes[0] != sizes[1] || sizes[0] < 100<<20 || string(parts[0]) != string(parts[1]) {
		t.Errorf("trees of %v bytes", sizes)
	}
}
