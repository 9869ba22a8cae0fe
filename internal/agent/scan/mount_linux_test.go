package scan

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestBoundBelow needs the right to mount. The scan of a tree skips a bind mount of a host's directory, even on the
// same file system.
func TestBoundBelow(t *testing.T) {
	const token = "dckr_pat_AbCdEfGhIjKlMnOpQrStUvWxYz0"
	dir, outside := t.TempDir(), t.TempDir()
	writeFile(t, dir, "opt/app/config", "user = "+token+"\n")
	writeFile(t, dir, "opt/app/data/own", "x\n")
	writeFile(t, outside, "host's", "user = "+token+"\n")
	point := filepath.Join(dir, "opt/app/data")
	if err := syscall.Mount(outside, point, "", syscall.MS_BIND, ""); err != nil {
		if os.Getenv("CI") != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(point, syscall.MNT_DETACH) })
	report := scanTree(t, dir, Options{})
	if report.Count != 1 || report.Findings[0].Path != "/opt/app/config" || !slices.Equal(report.Mounts.First, []string{"/opt/app/data"}) {
		t.Errorf("%d findings: %+v, mounts: %+v", report.Count, report.Findings, report.Mounts)
	}
}
