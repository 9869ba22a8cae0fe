package host

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/agent/scan"
)

// TestDetach needs the right to mount.
func TestDetach(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a root")
	volume := filepath.Join(root, "var/lib/kubelet/pods/uid/volumes/kubernetes.io~projected/token")
	other := filepath.Join(root, "mnt/data")
	for _, dir := range []string{volume, other} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Skipf("mounting is not allowed here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	tr, log := opened(t, root), &bytes.Buffer{}
	if _, err := tr.Remove("var/lib/kubelet/pods/uid", nil); err == nil {
		t.Fatal("removed through a mount")
	}
	(&Host{Log: log}).detach(tr)
	if _, err := tr.Remove("var/lib/kubelet/pods/uid", nil); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	left, err := mountsBelow(root)
	if err != nil || len(left) != 1 || left[0].Dir != "/mnt/data" {
		t.Errorf("left mounted: %+v (%v)", left, err)
	}
	if ownFileSystem(tr) {
		t.Error("a directory counts as a file system of its own")
	}
}

// TestOpenBelow needs the right to mount. A mount hides the earlier files, and the tree below shows the files.
func TestOpenBelow(t *testing.T) {
	root := t.TempDir()
	mount := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Skipf("mounting is not allowed here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	h := &Host{Log: &bytes.Buffer{}}
	if below, release, err := OpenBelow(opened(t, root), h.logf); below != nil || err != nil {
		t.Errorf("a directory of a larger file system hides something: %+v (%v)", below, err)
	} else {
		release()
	}
	mount(root)
	secret := filepath.Join(root, "tmp/secret")
	if err := os.MkdirAll(filepath.Dir(secret), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	mount(filepath.Join(root, "tmp"))
	if _, err := os.Lstat(secret); err == nil {
		t.Fatal("the mount hides nothing")
	}
	below, release, err := OpenBelow(opened(t, root), h.logf)
	if err != nil || below == nil {
		t.Fatalf("%+v, %v\n%s", below, err, h.Log)
	}
	defer release()
	if diff := cmp.Diff([]string{"/tmp"}, below.Points); diff != "" {
		t.Errorf("mount points (-want +got):\n%s", diff)
	}
	if content, err := below.Tree.Read("tmp/secret"); err != nil || string(content) != "s" {
		t.Errorf("read %q, %v", content, err)
	}
	if _, err := below.Tree.Remove("tmp/secret", nil); err != nil {
		t.Error(err)
	}
	report, err := scan.Tree(t.Context(), below.Tree.Dir(), scan.Options{Dirs: []string{"/tmp"}})
	if err != nil || report.Files != 0 {
		t.Errorf("the scan read %+v, %v", report, err)
	}
}

// TestFlush needs the right to mount, and mounts a file system from a file.
func TestFlush(t *testing.T) {
	dir := t.TempDir()
	image, root := filepath.Join(dir, "image"), filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(16 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, root}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	secret := bytes.Repeat([]byte("the donor's private key\n"), 4096)
	if err := os.WriteFile(filepath.Join(root, "key"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	tr, log := opened(t, root), &bytes.Buffer{}
	h := &Host{Log: log}
	if err := h.flush(tr); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(image); !bytes.Contains(raw, secret[:24]) {
		t.Error("what was written is not on the disk")
	}
	if _, err := tr.Remove("key", nil); err != nil {
		t.Fatal(err)
	}
	if err := h.flush(tr); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "trimmed /:") {
		t.Skipf("trimming does not work here: %s", log)
	}
	if raw, _ := os.ReadFile(image); bytes.Contains(raw, secret[:24]) {
		t.Error("what was deleted can still be read from the disk")
	}
	if !ownFileSystem(tr) || readOnly(tr) {
		t.Error("a mounted file system does not count as one of its own, or as writable")
	}
}
