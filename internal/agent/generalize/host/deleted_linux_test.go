package host

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// TestDeletedDataIsGone needs the right to mount. No byte of the disk may have what a run removed: the content of open
// files, names, targets of links, attributes, and data below preallocated blocks of files that stay. The log of XFS keeps
// metadata.
func TestDeletedDataIsGone(t *testing.T) {
	for kind, c := range map[string]struct {
		size, mkfs, options string
		stays               []string
	}{
		"ext4":                          {"64M", "mkfs.ext4 -q -F", "loop", nil},
		"ext4 with data in its journal": {"64M", "mkfs.ext4 -q -F", "loop,data=journal", nil},
		"XFS":                           {"320M", "mkfs.xfs -q", "loop", []string{"attribute", "directory's attribute", "link", "name"}},
	} {
		t.Run(kind, func(t *testing.T) { testDeletedData(t, c.size, strings.Fields(c.mkfs), c.options, c.stays) })
	}
}

func testDeletedData(t *testing.T, size string, mkfs []string, options string, stays []string) {
	dir := t.TempDir()
	image, root := filepath.Join(dir, "image"), filepath.Join(dir, "root")
	for _, command := range [][]string{
		{"mkdir", root}, {"truncate", "-s", size, image}, append(mkfs, image), {"mount", "-o", options, image, root},
		{"mkdir", filepath.Join(root, "proc")}, {"mount", "-t", "proc", "proc", filepath.Join(root, "proc")},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		for _, at := range []string{filepath.Join(root, "proc"), root} {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	})
	needles := map[string]string{
		"content of an open file": "needle-held", "content that its process deleted": "needle-own", "name": "needle-name", "link": "needle-link", "attribute": "needle-attribute",
		"directory's attribute": "needle-dirattr", "data below preallocated blocks": "needle-below",
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fill := func(name, needle string) {
		t.Helper()
		must(os.WriteFile(filepath.Join(root, name), bytes.Repeat([]byte(needle+"\n"), 5000), 0o600))
	}
	must(os.Mkdir(filepath.Join(root, "gone"), 0o755))
	fill("gone/held", "needle-held")
	fill("gone/needle-name", "x")
	fill("own", "needle-own")
	fill("below", "needle-below")
	must(os.Symlink("/"+strings.Repeat("needle-link/", 8), filepath.Join(root, "gone/link")))
	must(unix.Setxattr(filepath.Join(root, "gone/held"), "user.x", []byte("needle-attribute"), 0))
	must(unix.Setxattr(filepath.Join(root, "gone"), "user.x", []byte("needle-dirattr"), 0))
	held := hold(t, filepath.Join(root, "gone/held"))
	own := hold(t, filepath.Join(root, "own"))
	unix.Sync()
	left := func() (left []string) {
		raw, err := os.ReadFile(image)
		must(err)
		for what, needle := range needles {
			if bytes.Contains(raw, []byte(needle)) {
				left = append(left, what)
			}
		}
		return left
	}
	if found := left(); len(found) != len(needles) {
		t.Fatalf("the search finds only %q", found)
	}
	// A file that stays reserves all free blocks, and so those of a deleted file.
	must(os.Remove(filepath.Join(root, "below")))
	must(os.Remove(filepath.Join(root, "own")))
	unix.Sync()
	keeper, err := os.Create(filepath.Join(root, "keeper"))
	must(err)
	must(unix.Fallocate(int(keeper.Fd()), 0, 0, 40<<20))
	must(keeper.Close())

	machine, err := tree.OpenRunning(root)
	must(err)
	defer machine.Close()
	if _, err := machine.Remove("gone", nil); err != nil {
		t.Fatal(err)
	}
	if freed, err := machine.FreePreallocated(t.Context()); err != nil || freed < 40<<20 {
		t.Fatalf("freed %d bytes: %v", freed, err)
	}
	log := &bytes.Buffer{}
	must((&Host{Log: log}).flush(machine))
	if !strings.Contains(log.String(), "trimmed /:") || strings.Contains(log.String(), "the journal") {
		t.Skipf("this machine cannot trim, or clear a journal: %s", log)
	}
	found := slices.DeleteFunc(left(), func(what string) bool { return slices.Contains(stays, what) })
	if len(found) > 0 {
		t.Errorf("still on the disk: %q\n%s", found, log)
	}
	if info, err := os.Stat(filepath.Join(root, "keeper")); err != nil || info.Size() != 40<<20 {
		t.Errorf("the file that stays has changed: %v, %v", info, err)
	}
	for _, p := range []*exec.Cmd{held, own} {
		must(p.Process.Signal(syscall.Signal(0)))
	}
}

// hold starts a process that has a file open.
func hold(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := exec.Command("sleep", "1000")
	p.Stdout = f
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}
