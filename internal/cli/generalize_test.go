package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/rules"
)

func generalizeCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := newGeneralizeCommand(&Factory{
		Out: &out, Err: &log, Now: func() time.Time { return time.Unix(1795240800, 0) },
		Getenv: func(string) string { return "" },
	})
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&log)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
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

func TestGeneralizeList(t *testing.T) {
	out, err := generalizeCommand(t, "--list")
	if err != nil || !strings.Contains(out, "machine-id ") || !strings.Contains(out, "/var/log/**") {
		t.Errorf("got %v\n%s", err, out)
	}
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) },
	} {
		out, err := generalizeCommand(t, "--list", "--profile", "bootstrap", "-o", format)
		var p rules.Profile
		if err != nil || read([]byte(out), &p) != nil || p.Name != "bootstrap" || len(p.Rules) < 40 {
			t.Errorf("%s: got %v, %d rules", format, err, len(p.Rules))
		}
	}
}

func TestGeneralizeTree(t *testing.T) {
	dir, file := machineTree(t), filepath.Join(t.TempDir(), "manifest.json")
	out, err := generalizeCommand(t, "--root", dir, "--dry-run")
	if err != nil || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("got %v\n%s", err, out)
	}
	if content, _ := os.ReadFile(filepath.Join(dir, "etc/hostname")); string(content) != "donor\n" {
		t.Error("a dry run changed the tree")
	}
	out, err = generalizeCommand(t, "--root", dir, "--manifest", file, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var m generalize.Manifest
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Met != m.Rules || m.Rules == 0 {
		t.Errorf("got %v, %d of %d rules", err, m.Met, m.Rules)
	}
	inside, _ := os.ReadFile(filepath.Join(dir, generalize.ManifestPath))
	if outside, err := os.ReadFile(file); err != nil || !bytes.Equal(inside, outside) {
		t.Errorf("the manifests inside and outside differ (%v)", err)
	}
	if out, err = generalizeCommand(t, "--root", dir); err != nil || !strings.Contains(out, "manifest sha256:") {
		t.Errorf("the second run: %v\n%s", err, out)
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
		{"no root", nil, ExitUsage, "--root must name"},
		{"root is not there", []string{"--root", filepath.Join(refused, "nowhere")}, ExitUsage, "nowhere"},
		{"unknown profile", []string{"--list", "--profile", "other"}, ExitUsage, "static"},
		{"unknown format", []string{"--list", "-o", "xml"}, ExitUsage, "xml"},
		{"this machine", []string{"--root", "/"}, ExitRefused, "--confirm-root"},
		{"this machine by another name", []string{"--root", "/proc/self/root"}, ExitRefused, "--confirm-root"},
		{"refused", []string{"--root", refused}, ExitRefused, "etcd-member"},
		{"a link in the way", []string{"--root", linked}, ExitRefused, "/var/log is a link to /data"},
		{"not allowable", []string{"--root", refused, "--allow", "control-plane"}, ExitRefused, "local-volumes"},
		{"other rules than ordered", []string{"--root", unmet, "--profile", "static", "--profile-file", ours, "--rules-digest", "sha256:0"}, ExitRefused, "not the rules of the order"},
		{"no rules, and some ordered", []string{"--root", unmet, "--profile", "static", "--rules-digest", "sha256:0"}, ExitRefused, "not the rules of the order"},
		{"not met", []string{"--root", unmet}, ExitFailed, "must not be copied"},
		{"a pioneer without a list of packages", []string{"--root", refused, "--look", "--patched-by-kamino", "Allow", "--allow", "control-plane"}, ExitRefused, "Kamino cannot patch"},
		{"a pioneer without a firmware UUID", []string{"--root", machineTree(t), "--look", "--quiet-nodes"}, ExitRefused, "has no UUID"},
		{"findings, one in a line", []string{"--root", unmet, "--look"}, ExitRefused, "password's hash in /etc/a.conf\n  password's hash in /etc/b.conf\n    No rule covers"},
		{"an exemption to paste", []string{"--root", unmet, "--dry-run"}, ExitRefused, "        - paths:\n            - \"/etc/a.conf\"\n            - \"/etc/b.conf\""},
		{"live without an order", []string{"--root", refused, "--live"}, ExitUsage, "--boot-id"},
		{"live dry run", append([]string{"--root", refused, "--dry-run"}, live...), ExitUsage, "--dry-run"},
		{"live without an API server", append([]string{"--root", refused, "--token-file", "t", "--ca-file", "c"}, live...), ExitRefused, "KUBERNETES_SERVICE_HOST"},
	} {
		t.Run(c.is, func(t *testing.T) {
			_, err := generalizeCommand(t, c.args...)
			var e *failure
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want exit code %d and %q", err, c.code, c.says)
			}
		})
	}
}
