package tree

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMount(t *testing.T) {
	line := `36 35 98:0 /mnt1 /mnt\0402/x\134y rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
	got, ok := ParseMount(line)
	if want := (MountPoint{Device: "98:0", Dir: `/mnt 2/x\y`, Kind: "ext3", Source: "/dev/root"}); !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, broken := range []string{"", "36 35 98:0 / /", "1 2 3 - x y"} {
		if got, ok := ParseMount(broken); ok {
			t.Errorf("%q was read as %+v", broken, got)
		}
	}
	if diff := cmp.Diff(`a\9`, Unescape(`a\9`)); diff != "" {
		t.Error(diff)
	}
}

// TestMounts needs the right to mount: mounted files are neither found nor removed.
func TestMounts(t *testing.T) {
	tr, dir, witness := plant(t, map[string]string{"pods/a/volume/": "", "pods/b/volume/": "", "var/log/": "", "pods/a/file": ""})
	mount := func(source, at, kind string, flags uintptr) {
		t.Helper()
		if err := syscall.Mount(source, filepath.Join(dir, at), kind, flags, ""); err != nil {
			t.Skipf("mounting is not allowed here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(dir, at), syscall.MNT_DETACH) })
	}
	mount("none", "pods/a/volume", "tmpfs", 0)
	mount(witness, "pods/b/volume", "", syscall.MS_BIND)
	mount("none", "var/log", "tmpfs", 0)
	put(t, dir, "pods/a/volume/data", "shared")
	put(t, dir, "var/log/syslog", "in memory")

	for _, p := range []string{"pods/a", "pods/b", "pods/a/volume"} {
		if _, err := tr.Remove(p, nil); !errors.Is(err, ErrMounted) {
			t.Errorf("%s: %v, want ErrMounted", p, err)
		}
	}
	for _, p := range []string{filepath.Join(witness, "file"), filepath.Join(dir, "pods/a/volume/data")} {
		if _, err := os.Stat(p); err != nil {
			t.Errorf("removed through a mount: %v", err)
		}
	}
	for _, pattern := range []string{"var/log/*", "var/log/none", "var/log/none/x"} {
		if found, err := tr.Glob(pattern); !errors.Is(err, ErrMounted) {
			t.Errorf("%s: found %v behind a mount (%v)", pattern, paths(found), err)
		}
	}
	running, err := OpenRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	if found, err := running.Glob("var/log/*"); err != nil || len(found) != 0 {
		t.Errorf("found %v in memory (%v)", paths(found), err)
	}
}
