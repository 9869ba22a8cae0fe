package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("# A\n\n```sh\na\n\nb\n```\n\n- item\n\n  ```console\n  c\n    d\n  ```\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := Blocks(t, path), []Block{{"sh", "a\n\nb\n"}, {"console", "c\n  d\n"}}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMissingLine(t *testing.T) {
	output := "NAME   AGE\nnode-1   12s   Ready\nnode-2   3m   NotReady\ndone\n"
	for want, lines := range map[string][]string{
		"":             {"NAME AGE", "node-7 …s Ready", "done"},
		"NAME AGE":     {"node-1 12s Ready", "NAME AGE"},
		"node-1 Ready": {"node-1 Ready"},
	} {
		if got := missingLine(lines, output); got != want {
			t.Errorf("%q: %q is missing, want %q", lines, got, want)
		}
	}
}
