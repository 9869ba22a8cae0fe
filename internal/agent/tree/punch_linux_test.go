package tree

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveFreesBlocks: on a running machine a removed file has no blocks, although a process holds it open. Another
// name of a file keeps the content.
func TestRemoveFreesBlocks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"held", "linked", "log/held"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("a secret\n", 10_000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	running, err := OpenRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	for name, freed := range map[string]bool{"held": true, "log": true, "linked": false} {
		file := name
		if name == "log" {
			file = "log/held"
		}
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20); err != nil {
			t.Skipf("this file system does not preallocate: %v", err)
		}
		if _, err := running.Remove(name, nil); err != nil {
			t.Fatal(err)
		}
		var s syscall.Stat_t
		if err := syscall.Fstat(int(f.Fd()), &s); err != nil {
			t.Fatal(err)
		}
		// The last block, with the end of the file, may stay with zeros.
		content, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if wiped := strings.Trim(string(content), "\x00") == ""; (s.Blocks <= 8) != freed || wiped != freed {
			t.Errorf("/%s has %d blocks after its removal, wiped %t", file, s.Blocks, wiped)
		}
	}
}
