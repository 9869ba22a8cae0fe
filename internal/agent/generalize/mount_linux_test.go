package generalize

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// TestMountedBelow needs the right to mount. A directory of the host that is bind-mounted below the tree stays
// unchanged, on any file system.
func TestMountedBelow(t *testing.T) {
	for _, kind := range []string{"bind", "tmpfs"} {
		for _, at := range []string{"var/log/x", "var/log", "etc", "var/lib/waagent/deep/down"} {
			t.Run(kind+" at "+at, func(t *testing.T) {
				dir, outside := plant(t, node), plant(t, map[string]string{"machine-id": "the host's\n", "syslog": "the host's\n", "ssh/ssh_host_rsa_key": "the host's\n"})
				point := filepath.Join(dir, at)
				must(t, os.MkdirAll(point, 0o755))
				source, flags, fs := outside, uintptr(syscall.MS_BIND), ""
				if kind == "tmpfs" {
					source, flags, fs = "none", 0, "tmpfs"
				}
				if err := syscall.Mount(source, point, fs, flags, ""); err != nil {
					t.Skipf("mounting is not allowed here: %v", err)
				}
				t.Cleanup(func() { _ = syscall.Unmount(point, syscall.MNT_DETACH) })
				writeFile(t, point, "inside", "the host's\n")
				was := snapshot(t, dir)

				_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
				if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
					t.Errorf("changed all the same:\n%s", diff)
				}
				if why := refusedOf(t, err).Error(); !strings.Contains(why, "/"+at) || !strings.Contains(why, "Unmount the file system") {
					t.Errorf("got %q, want the mount and what to do", why)
				}
			})
		}
	}
}

// TestMountDuringRun needs the right to mount. A mount after the check for refusals is not entered.
func TestMountDuringRun(t *testing.T) {
	dir, outside := plant(t, node), plant(t, map[string]string{"syslog": "the host's\n"})
	point := filepath.Join(dir, "var/log/x")
	must(t, os.MkdirAll(point, 0o755))
	if err := syscall.Mount(outside, point, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(point, syscall.MNT_DETACH) })
	tr := open(t, dir)
	if _, err := tr.Glob("var/log/**"); !errors.Is(err, tree.ErrMounted) {
		t.Errorf("looked through the mount: %v", err)
	}
	if _, err := tr.Remove("var/log/x/syslog", nil); !errors.Is(err, tree.ErrMounted) {
		t.Errorf("removed through the mount: %v", err)
	}
	if err := tr.Replace("var/log/x/syslog", []byte("ours"), 0o600); !errors.Is(err, tree.ErrMounted) {
		t.Errorf("wrote through the mount: %v", err)
	}
	if err := tr.Link("/", "var/log/x/new/link"); !errors.Is(err, tree.ErrMounted) {
		t.Errorf("made a link behind the mount: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(outside, "syslog")); err != nil || string(content) != "the host's\n" {
		t.Errorf("the host's file holds %q (%v)", content, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("something was made at the host's: %v", entries)
	}
}

// TestNoRoom needs the right to mount: on an almost full file system, in bytes or in files, nothing changes.
func TestNoRoom(t *testing.T) {
	for what, c := range map[string]struct{ options, says string }{
		"bytes": {"size=1m", "KiB free"},
		"files": {"size=64m,nr_inodes=100", "more files"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("none", dir, "tmpfs", 0, c.options); err != nil {
				t.Skipf("mounting is not allowed here: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
			for name, content := range node {
				writeFile(t, dir, name, content)
			}
			was := snapshot(t, dir)
			_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
			if why := refusedOf(t, err).Error(); !strings.Contains(why, c.says) || !strings.Contains(why, "then try again") {
				t.Errorf("got %q", why)
			}
			if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
				t.Errorf("changed:\n%s", diff)
			}
		})
	}
}

// TestJoinDataInMemory needs the right to mount. Data that a boot clears is neither removed nor missed, so a node
// can be captured before its first reboot.
func TestJoinDataInMemory(t *testing.T) {
	dir := plant(t, node)
	point := filepath.Join(dir, "run")
	must(t, os.MkdirAll(point, 0o755))
	if err := syscall.Mount("none", point, "tmpfs", 0, ""); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(point, syscall.MNT_DETACH) })
	writeFile(t, point, "kubeadm/kubeadm-join-config.yaml", "the donor's\n")
	writeFile(t, point, "cluster-api/placeholder", "the donor's\n")
	running, err := tree.OpenRunning(dir)
	must(t, err)
	defer running.Close()
	p := load(t, v1alpha1.ProfileBootstrap)
	m, err := runner(p).Run(t.Context(), running)
	must(t, err)
	if m.Met != m.Rules || !exists(dir, "run/kubeadm/kubeadm-join-config.yaml") {
		t.Errorf("%d of %d rules are met", m.Met, m.Rules)
	}
}

// TestImmutable: a file that the kernel protects is refused before any change. It needs root.
func TestImmutable(t *testing.T) {
	dir := plant(t, node, map[string]string{"var/log/pods/x/0.log": "x"})
	file := filepath.Join(dir, "var/log/pods/x/0.log")
	if out, err := exec.CommandContext(t.Context(), "chattr", "+i", file).CombinedOutput(); err != nil {
		t.Skipf("chattr: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-i", file).Run() })
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	if why := refusedOf(t, err).Error(); !strings.Contains(why, "run chattr -i -a /var/log/pods/x/0.log") || !exists(dir, "var/log/syslog") {
		t.Errorf("got %q", why)
	}
}
