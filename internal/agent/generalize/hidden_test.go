package generalize

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/rules"
)

// hidden lists files on the disk below /tmp, /var/log and /home, under mounts.
var hidden = map[string]string{
	"tmp/secret": "left by the build", "tmp/dir/more": "the same", "var/log/old.log": "of the donor",
	"home/ops/.kube/config": "a credential", "home/ops/notes": "unknown to all rules", "etc/motd": "seen anyway",
}

func newHiddenTree(t *testing.T, files ...map[string]string) (*Runner, string) {
	t.Helper()
	dir := plant(t, append([]map[string]string{node, hidden}, files...)...)
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Below = &HiddenFiles{Tree: open(t, dir), Points: []string{"/tmp", "/var/log", "/home", "/proc"}}
	return r, dir
}

// TestRemoveHiddenFiles has two trees: the machine's files, and the root without mounts.
func TestRemoveHiddenFiles(t *testing.T) {
	r, below := newHiddenTree(t)
	m, err := run(t, plant(t, node), r)
	must(t, err)
	for _, name := range []string{"tmp/secret", "tmp/dir", "var/log/old.log", "home/ops/.kube"} {
		if exists(below, name) {
			t.Errorf("/%s is there", name)
		}
	}
	for _, name := range []string{"tmp", "var/log", "home", "home/ops/notes", "etc/motd", "etc/hostname"} {
		if !exists(below, name) {
			t.Errorf("/%s is gone: it is a mount point, or not hidden, or unknown to all rules", name)
		}
	}
	for _, o := range m.Outcomes {
		if o.Rule == "temporary-files" && (o.Found != 2 || o.Changed == 0) {
			t.Errorf("the manifest says %+v", o)
		}
	}
}

// TestCheckHiddenFiles: the check finds hidden files that were skipped, kept or unknown to all rules.
func TestCheckHiddenFiles(t *testing.T) {
	r, _ := newHiddenTree(t)
	r.skip = func(rule *rules.Rule) bool { return rule.ID == "temporary-files" }
	_, err := run(t, plant(t, node), r)
	if err == nil || !strings.Contains(err.Error(), "temporary-files: below a mount point: /tmp/dir is there (2 found)") {
		t.Errorf("left out: got %v", err)
	}

	r, _ = newHiddenTree(t, map[string]string{"home/ops/id": pemKey(t)})
	_, err = run(t, plant(t, node), r)
	if err == nil || !strings.Contains(err.Error(), "private key (PEM) in /home/ops/id") {
		t.Errorf("a key: got %v", err)
	}

	r, _ = newHiddenTree(t, map[string]string{"var/lib/etcd/member": "x"})
	r.Below.Points = append(r.Below.Points, "/var/lib/etcd")
	_, err = run(t, plant(t, node), r)
	if err == nil || !strings.Contains(err.Error(), "control-plane: below a mount point: /var/lib/etcd/member is there") {
		t.Errorf("a control plane: got %v", err)
	}
}

func TestDryRunKeepsHiddenFiles(t *testing.T) {
	r, below := newHiddenTree(t)
	r.DryRun = true
	untouched := snapshot(t, below)
	m, err := run(t, plant(t, node), r)
	must(t, err)
	for name, content := range snapshot(t, below) {
		if untouched[name] != content {
			t.Errorf("/%s was changed", name)
		}
	}
	for _, o := range m.Outcomes {
		if o.Rule == "temporary-files" && o.Found != 2 {
			t.Errorf("the manifest says %+v", o)
		}
	}
}
