package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/rules"
)

// program runs kamino-node, and returns its output and its exit code.
func program(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	e := Environment{Out: &out, Err: &out, Now: func() time.Time { return time.Unix(1795240800, 0) }, Getenv: func(string) string { return "" }, Devices: offline.Linux{}}
	code := e.Run(t.Context(), args)
	return out.String(), code
}

func machineTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/hostname": "donor\n", "etc/ssh/ssh_host_rsa_key": "x", "etc/kubernetes/certs/client.crt": "x", "var/log/syslog": "x"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// twoDisks is a machine whose /var is on another disk than its root.
func twoDisks(t *testing.T) string {
	t.Helper()
	dir := machineTree(t)
	table := "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n40 22 259:10 / /var rw - ext4 /dev/nvme1n1 rw\n"
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "proc/1"), 0o755), os.WriteFile(filepath.Join(dir, "proc/1/mountinfo"), []byte(table), 0o644),
		os.MkdirAll(filepath.Join(dir, "sys/dev/block"), 0o755))
	for number, device := range map[string]string{"259:1": "nvme0n1/nvme0n1p1/partition", "259:10": "nvme1n1/size"} {
		file := filepath.Join(dir, "sys/devices", device)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("1\n"), 0o644),
			os.Symlink("../../devices/"+filepath.Dir(device), filepath.Join(dir, "sys/dev/block", number)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGeneralizeList(t *testing.T) {
	out, code := program(t, "generalize", "--list")
	if code != exit.Done || !strings.Contains(out, "machine-id ") || !strings.Contains(out, "/var/log/**") {
		t.Errorf("got %d\n%s", code, out)
	}
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) },
	} {
		out, code := program(t, "generalize", "--list", "--profile", "bootstrap", "-o", format)
		var p rules.Profile
		if code != exit.Done || read([]byte(out), &p) != nil || p.Name != "bootstrap" || len(p.Rules) < 40 {
			t.Errorf("%s: got %d, %d rules", format, code, len(p.Rules))
		}
	}
}

func TestGeneralizeTree(t *testing.T) {
	dir, file := machineTree(t), filepath.Join(t.TempDir(), "manifest.json")
	out, code := program(t, "generalize", "--root", dir, "--dry-run")
	if code != exit.Done || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("got %d\n%s", code, out)
	}
	if content, _ := os.ReadFile(filepath.Join(dir, "etc/hostname")); string(content) != "donor\n" {
		t.Error("a dry run changed the tree")
	}
	if out, code = program(t, "generalize", "--root", dir, "--manifest", file, "-o", "json"); code != exit.Done {
		t.Fatal(out)
	}
	var m generalize.Manifest
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Met != m.Rules || m.Rules == 0 {
		t.Errorf("got %v, %d of %d rules", err, m.Met, m.Rules)
	}
	inside, _ := os.ReadFile(filepath.Join(dir, generalize.ManifestPath))
	if outside, err := os.ReadFile(file); err != nil || !bytes.Equal(inside, outside) {
		t.Errorf("the manifests inside and outside differ (%v)", err)
	}
	if out, code = program(t, "generalize", "--root", dir); code != exit.Done || !strings.Contains(out, "manifest sha256:") {
		t.Errorf("the second run: %d\n%s", code, out)
	}
}

func TestGeneralizeEndings(t *testing.T) {
	refused := machineTree(t)
	if err := os.MkdirAll(filepath.Join(refused, "var/lib/etcd/member"), 0o755); err != nil {
		t.Fatal(err)
	}
	linked, unmet := machineTree(t), machineTree(t)
	if err := os.Rename(filepath.Join(linked, "var/log"), filepath.Join(linked, "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/data", filepath.Join(linked, "var/log")); err != nil {
		t.Fatal(err)
	}
	// Findings that no rule ends.
	for _, name := range []string{"a", "b"} {
		hash := "$6$" + name + "$" + strings.Repeat("Ab3./xYz9QwErT", 7)[:86]
		if err := os.WriteFile(filepath.Join(unmet, "etc", name+".conf"), []byte("value "+hash+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	volume := machineTree(t)
	for name, content := range map[string]string{"proc/1/mountinfo": "1 0 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n",
		"sys/dev/block/253:0/dm/uuid": "LVM-abc\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(volume, name)), 0o755),
			os.WriteFile(filepath.Join(volume, name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ours := filepath.Join(t.TempDir(), "ours.yaml")
	if err := os.WriteFile(ours, []byte("version: \"1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	live := []string{"--live", "--prototype", "p", "--uid", "u", "--boot-id", "b", "--order", "ns/o", "--order-uid", "ou", "--key-file", "k", "--pod-uid-file", "pu"}
	for _, c := range []struct {
		is   string
		args []string
		code int
		says string
	}{
		{"no root", nil, exit.Usage, "--root must name"},
		{"root is not there", []string{"--root", filepath.Join(refused, "nowhere")}, exit.Usage, "nowhere"},
		{"unknown profile", []string{"--list", "--profile", "other"}, exit.Usage, "static"},
		{"unknown format", []string{"--list", "-o", "xml"}, exit.Usage, "xml"},
		{"this machine", []string{"--root", "/"}, exit.Refused, "--confirm-root"},
		{"this machine by another name", []string{"--root", "/proc/self/root"}, exit.Refused, "--confirm-root"},
		{"refused", []string{"--root", refused}, exit.Refused, "etcd-member"},
		{"a link in the way", []string{"--root", linked}, exit.Refused, "/var/log is a link to /data"},
		{"not allowable", []string{"--root", refused, "--allow", "control-plane"}, exit.Refused, "local-volumes"},
		{"other rules than ordered", []string{"--root", unmet, "--profile", "static", "--profile-file", ours, "--rules-digest", "sha256:0"}, exit.Refused, "not the rules of the order"},
		{"no rules, and some ordered", []string{"--root", unmet, "--profile", "static", "--rules-digest", "sha256:0"}, exit.Refused, "not the rules of the order"},
		{"not met", []string{"--root", unmet}, exit.Failed, "must not be copied"},
		{"a pioneer without a list of packages", []string{"inspect", "--root", refused, "--patched-by-kamino", "Allow", "--allow", "control-plane"}, exit.Refused, "Kamino cannot patch"},
		{"a pioneer without a firmware UUID", []string{"inspect", "--root", machineTree(t), "--quiet-nodes"}, exit.Refused, "has no UUID"},
		{"a disk that is not copied", []string{"inspect", "--root", volume, "--copied"}, exit.Refused, "a logical volume (LVM)"},
		{"the same disk, in place", []string{"inspect", "--root", volume}, exit.Done, "nothing is in the way"},
		{"a running disk without its second disk", []string{"inspect", "--root", twoDisks(t), "--copied"}, exit.Refused, "/var is on another disk (nvme1n1)"},
		{"findings, one in a line", []string{"inspect", "--root", unmet}, exit.Refused, "password's hash in /etc/a.conf\n  password's hash in /etc/b.conf\n    No rule covers"},
		{"an exemption to paste", []string{"--root", unmet, "--dry-run"}, exit.Refused, "        - paths:\n            - \"/etc/a.conf\"\n            - \"/etc/b.conf\""},
		{"a comparison without the key", []string{"inspect", "--root", unmet, "--summarize", "s", "--summary-key-file", ours + "x"}, exit.Unexpected, "--summary-key-file"},
		{"a misspelt flag", []string{"--roots", "x"}, exit.Usage, "did you mean --root"},
		{"live without an order", []string{"--root", refused, "--live"}, exit.Usage, "--boot-id"},
		{"live dry run", append([]string{"--root", refused, "--dry-run"}, live...), exit.Usage, "--dry-run"},
		{"live without an API server", append([]string{"--root", refused, "--token-file", "t", "--ca-file", "c"}, live...), exit.Refused, "KUBERNETES_SERVICE_HOST"},
	} {
		t.Run(c.is, func(t *testing.T) {
			verb := "generalize"
			if i := slices.Index(c.args, "inspect"); i == 0 {
				verb, c.args = c.args[0], c.args[1:]
			}
			if out, code := program(t, append([]string{verb}, c.args...)...); code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("got %d, want exit code %d and %q:\n%s", code, c.code, c.says, out)
			}
		})
	}
}
