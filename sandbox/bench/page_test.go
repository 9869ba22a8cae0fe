package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage: a report replaces only the previous report. A page without a place for reports is an error, and stays
// unchanged.
func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write("# Title\n" + pageBegin + "old\n" + pageEnd + "more\n")
	for range 2 {
		if err := (Report{}).WritePage(path); err != nil {
			t.Fatal(err)
		}
		if have, want := read(), "# Title\n"+pageBegin+"\n| figure | measured | limit |\n|---|---|---|\n\n"+pageEnd+"more\n"; have != want {
			t.Fatalf("%q, want %q", have, want)
		}
	}
	write("# Title\n" + pageBegin)
	if err := (Report{}).WritePage(path); err == nil || !strings.Contains(err.Error(), "was not changed") || read() != "# Title\n"+pageBegin {
		t.Errorf("%v, and %q", err, read())
	}
}
