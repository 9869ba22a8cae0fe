// Package docs compares the sandbox's documentation page with the code.
package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// TestPoolKeys compares the page's table of a pool's keys with the keys of the command line.
func TestPoolKeys(t *testing.T) {
	text, err := os.ReadFile("../../docs/contribute/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "<!-- pool keys")
	if !found {
		t.Fatal("docs/contribute/sandbox.md has no table of a pool's keys")
	}
	table, _, _ := strings.Cut(after, "\n\n")
	var listed, taken []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	for _, line := range pool.Keys() {
		taken = append(taken, strings.Fields(line)[0])
	}
	if diff := cmp.Diff(taken, listed); diff != "" {
		t.Errorf("docs/contribute/sandbox.md lists other keys of a pool than there are (-command +page):\n%s", diff)
	}
}
