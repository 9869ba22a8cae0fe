package web

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/dashboard/web/page"
	"github.com/kamino-dev/kamino/internal/testing/example"
)

// TestSize: the page of three pools with its assets stays below 150 KiB.
func TestSize(t *testing.T) {
	size := len(page.HTML(example.View()))
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		size += len(text)
		if bytes.Contains(text, []byte("//")) && !strings.HasSuffix(path, ".js") && !strings.HasSuffix(path, ".svg") {
			t.Errorf("%s may load something from another host", path)
		}
		return err
	})
	if err != nil || size > 150<<10 {
		t.Errorf("%d bytes (%v)", size, err)
	}
	t.Logf("%d bytes", size)
}
