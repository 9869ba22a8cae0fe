package bench

import (
	"os"
	"path/filepath"
	"testing"
)

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
