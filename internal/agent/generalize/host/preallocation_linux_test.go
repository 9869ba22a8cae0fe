package host

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFlushPreallocated needs the right to mount. For small files, ext4 preallocates two MiB of recently freed blocks
// per processor. These blocks must be trimmed, too, while the file system stays mounted.
func TestFlushPreallocated(t *testing.T) {
	dir := t.TempDir()
	image, root := filepath.Join(dir, "image"), filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, root}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	const marker = "the donor's private key"
	secret := bytes.Repeat([]byte(marker+"\n"), 200)
	keys := filepath.Join(root, "keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		if err := os.WriteFile(filepath.Join(keys, fmt.Sprint(i)), secret, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unix.Sync()
	left := func() int {
		raw, err := os.ReadFile(image)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(raw, []byte(marker))
	}
	if left() < 5000 {
		t.Fatal("what was written is not on the disk: this search finds nothing")
	}
	// A newly mounted file system has no preallocated blocks.
	for _, command := range [][]string{{"umount", root}, {"mount", "-o", "loop", image, root}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", command, err, out)
		}
	}
	for i := range 5000 {
		if err := os.Remove(filepath.Join(keys, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	unix.Sync()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(keys, fmt.Sprint("manifest", i)), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unix.Sync()
	log := &bytes.Buffer{}
	if err := (&Host{Log: log}).flush(opened(t, root)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "trimmed /:") {
		t.Skipf("trimming does not work here: %s", log)
	}
	if n := left(); n > 0 {
		t.Errorf("what was deleted can still be read from the disk, in %d places\n%s", n, log)
	}
	entries, err := os.ReadDir(keys)
	if err != nil || len(entries) != 20 {
		t.Errorf("the flush has left something behind, or taken something: %v, %v", entries, err)
	}
}
