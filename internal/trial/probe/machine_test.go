package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMachine measures this machine, and leaves no file.
func TestMachine(t *testing.T) {
	dir := t.TempDir()
	m := machine(t.Context(), dir)
	if m.SyncMillis < 1 || m.Hashes < 1 || m.OpenFiles == 0 || m.Says != "" {
		t.Errorf("%+v", m)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if m := machine(t.Context(), filepath.Join(dir, "none")); m.Says == "" || m.SyncMillis != 0 {
		t.Errorf("without the directory: %+v", m)
	}
	if n := hashes(time.Millisecond); n < 1 {
		t.Errorf("%d hashes in a second", n)
	}
}
