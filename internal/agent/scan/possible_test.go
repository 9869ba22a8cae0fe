package scan

import (
	"crypto/sha512"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPossibleIdentities: small files of unknown origin are listed if their name or content is like an identity.
func TestPossibleIdentities(t *testing.T) {
	const uuid = "3d7c1a52-9f1e-4b5c-8a77-0a1b2c3d4e5f"
	sum := sha512.Sum512([]byte(uuid))
	random := string(sum[:])
	files := map[string]struct {
		content string
		want    bool
	}{
		"etc/acme/hostid": {"abcd", true}, "opt/acme/agent_id": {"7", true}, "opt/acme/node-id.txt": {"x", false}, "var/lib/acme/UUID": {"x", true},
		"var/lib/acme/conf.json": {`{"key":"` + uuid + `"}`, true}, "opt/acme/a": {"id=0A1B2C3D4E5F60718293A4B5C6D7E8F9\n", true}, "opt/acme/identity.dat": {"\x00\x01", true},
		"opt/acme/two": {uuid + " " + uuid, false}, "opt/acme/long": {strings.Repeat("a", 33), false}, "opt/acme/sum": {strings.Repeat("0", 40), false},
		"opt/acme/width": {"x", false}, "opt/acme/video.conf": {"x", false}, "opt/acme/agent.py": {"x", false}, "opt/acme/id-large": {strings.Repeat("x", maxPossible+1), false},
		"etc/acme/instance": {"x=i-0abcdef0123456789\n", true}, "etc/acme/shorter": {"i-0abcdef01234567", false}, "etc/acme/longer": {"xi-0abcdef0123456789 i-0abcdef01234567890", false},
		"etc/acme/card": {"a: 02:42:AC:11:00:07", true}, "etc/acme/print": {"02:42:ac:11:00:07:aa:bb", false}, "etc/acme/time": {"02:42:99 1:2:3:4:5:6", false},
		"opt/acme/far": {strings.Repeat("x ", 31) + uuid + strings.Repeat(" ", 40) + "y", true}, "opt/acme/word": {strings.Repeat("0a", 16) + "z", false},
		"etc/acme/agent.ini": {"[main]\nComputerID=3141592653\n", true}, "etc/acme/agent.yaml": {"agent-id: \"a7-19\"\n", true}, "etc/acme/help": {"node-id: the ID of the node\n", false},
		"opt/acme/token.txt": {"Kq3nV8zT1bY6mW0cR5xH2jL9sD4fG7aP\n", true}, "opt/acme/release": {"kubernetes-release-2026-11\n", false}, "opt/acme/commit-of": {"Kq3nV8zT1bY6mW0cR5xH2jL9sD4fG7aP", false},
		"opt/jc/agent.conf": {`{"systemKey":"0a1b2c3d4e5f60718293a4b5"}`, true}, "etc/acme/tls.conf": {"client-key: /etc/acme/client.pem and more\n", false},
		"var/lib/queue/.erlang.cookie": {"KDJFPQWUZRTBNXMAVLEY", true}, "opt/acme/capitals": {"KDJFPQWUZRTBNXMAVLEY", true},
		"opt/acme/phrase": {"internationalisation", false}, "opt/acme/repeat": {"bcbcbcbcbcbcbcbcbcbcbc", false},
		"etc/acme/chassis.yaml": {"chassis_id: green-tiger-lamp\nname: a\n", true}, "etc/acme/text.conf": {"node-id: whatever you call the node\n", false},
		"etc/acme/none.conf": {"agent-id: auto\nhost-id = $HOSTNAME\n", false}, "etc/acme/oidc.conf": {"client_id = kubernetes-dashboard\n", false},
		"etc/munge/munge.key": {random, true}, "etc/corosync/authkey": {random, true}, "etc/acme/keyring": {random, false}, "etc/acme/archive-key.gpg": {random, false},
		"etc/acme/hot.key": {"F1 opens the help, F2 the menu\n", false}, "etc/acme/map.key": {strings.Repeat("\xff\x00", 40), false},
		"base/id": {uuid, false}, "opt/acme/empty-id": {"", false},
	}
	dir := t.TempDir()
	var want []string
	for name, file := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if file.want {
			want = append(want, "/"+name)
		}
	}
	report, err := Tree(t.Context(), dir, Options{Base: func(p string) bool { return strings.HasPrefix(p, "/base/") }})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(report.Possible.First))
	if diff := cmp.Diff(want, got); diff != "" || report.Possible.Count != len(want) || report.Count != 0 {
		t.Errorf("%d, %d findings (-want +got):\n%s", report.Possible.Count, report.Count, diff)
	}
}

// TestWholeKeys: a file with 32 bytes in base64 or hex is a key, a checksum is not.
func TestWholeKeys(t *testing.T) {
	key := base64ed(32)
	for name, test := range map[string]struct {
		content string
		want    int
	}{
		"opt/kilo/key": {key + "\n", 1}, "opt/kilo/hex": {letters(64), 1}, "opt/kilo/url": {strings.NewReplacer("+", "-", "/", "_").Replace(key), 1},
		"opt/kilo/release.sha256": {letters(64), 0}, "opt/kilo/checksum": {letters(64), 0}, "opt/kilo/short": {key[:40], 0}, "opt/kilo/two": {key + "\n" + key, 0},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Tree(t.Context(), dir, Options{})
		if err != nil || report.Count != test.want {
			t.Errorf("/%s: %d findings, want %d (%v)", name, report.Count, test.want, err)
		}
	}
}

// TestCoreDumps: the memory of a process is found under any name; a program is no core dump.
func TestCoreDumps(t *testing.T) {
	elf := func(order, kind string) string {
		return "\x7fELF\x02" + order + "\x01" + strings.Repeat("\x00", 9) + kind + strings.Repeat("\x00", 40)
	}
	for name, test := range map[string]struct {
		content string
		want    int
	}{
		"var/lib/acme/core": {elf("\x01", "\x04\x00"), 1}, "home/ops/dump": {elf("\x02", "\x00\x04"), 1},
		"opt/acme/bin": {elf("\x01", "\x02\x00"), 0}, "opt/acme/lib.so": {elf("\x01", "\x03\x00"), 0}, "opt/acme/short": {"\x7fELF", 0},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Tree(t.Context(), dir, Options{})
		if err != nil || report.Count != test.want {
			t.Errorf("/%s: %d findings, want %d (%v)", name, report.Count, test.want, err)
		}
	}
}
