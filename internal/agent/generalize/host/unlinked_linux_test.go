package host

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFlushUnlinked needs the right to mount. A container's file is deleted below the mounted file system: the blocks
// of the disk must not have the content.
func TestFlushUnlinked(t *testing.T) {
	dir := t.TempDir()
	image, root, merged := filepath.Join(dir, "image"), filepath.Join(dir, "root"), filepath.Join(dir, "merged")
	try := func(command ...string) ([]byte, error) {
		return exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	}
	for _, command := range [][]string{
		{"mkdir", root, merged, filepath.Join(dir, "lower")}, {"truncate", "-s", "64M", image},
		{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, root},
		{"mkdir", filepath.Join(root, "upper"), filepath.Join(root, "work"), filepath.Join(root, "proc")},
		{"mount", "-t", "proc", "proc", filepath.Join(root, "proc")},
		{"mount", "-t", "overlay", "overlay", "-o", "lowerdir=" + dir + "/lower,upperdir=" + root + "/upper,workdir=" + root + "/work", merged},
	} {
		if out, err := try(command...); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
		t.Cleanup(func() {
			for _, at := range []string{merged, filepath.Join(root, "proc"), root} {
				_ = syscall.Unmount(at, syscall.MNT_DETACH)
			}
		})
	}
	const marker = "what a container wrote"
	if err := os.WriteFile(filepath.Join(merged, "written"), []byte(marker), 0o600); err != nil {
		t.Fatal(err)
	}
	unix.Sync()
	left := func() bool {
		raw, err := os.ReadFile(image)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(raw, []byte(marker))
	}
	if !left() {
		t.Fatal("what was written is not on the disk: this search finds nothing")
	}
	if err := os.Remove(filepath.Join(root, "upper/written")); err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	if err := (&Host{Log: log}).flush(opened(t, root)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "trimmed /:") {
		t.Skipf("trimming does not work here: %s", log)
	}
	if left() {
		t.Errorf("it can still be read from the disk\n%s", log)
	}
}
