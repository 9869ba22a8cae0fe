package agent

import (
	"bytes"
	"crypto/ed25519"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"

	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// livedIn is the file tree of a machine with many keys, the host's keys included.
func livedIn(t *testing.T) (dir, hostKey string) {
	t.Helper()
	dir = machineTree(t)
	key := func() string {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	hostKey = key()
	for name, content := range map[string]string{
		"etc/ssh/ssh_host_ed25519_key": hostKey, "etc/kubernetes/certs/client.key": key(),
		"etc/kubernetes/certs/kubeletserver.key": key(), "var/lib/waagent/TransportPrivate.pem": key(),
		"root/.ssh/id": key(), "usr/share/doc/example.pem": key(), "var/log/journal/x/system.journal": "LPKSHHRH",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "usr/share/doc/example.pem" {
			packaged(t, dir, name, content)
		}
	}
	return dir, hostKey
}

// packaged marks a file as a file of an installed package.
func packaged(t *testing.T, dir, name, content string) {
	t.Helper()
	list := filepath.Join(dir, "var/lib/dpkg/info/doc.md5sums")
	if err := os.MkdirAll(filepath.Dir(list), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, fmt.Appendf(nil, "%x  %s\n", md5.Sum([]byte(content)), name), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyTree(t *testing.T) {
	dir, hostKey := livedIn(t)
	// The negative control: a machine without generalization must not pass.
	out, code := program(t, "verify", dir)
	if code != exit.Failed || !strings.Contains(out, "ssh-host-keys") || !strings.Contains(out, "4 findings") || strings.Contains(out, hostKey[30:60]) {
		t.Errorf("not generalized: exit code %d\n%s", code, out)
	}
	if out, code := program(t, "generalize", "--root", dir); code != exit.Done {
		t.Fatal(out)
	}
	out, code = program(t, "verify", dir)
	if code != exit.Done || !strings.HasPrefix(out[strings.Index(out, "clean"):], "clean: read") || !strings.Contains(out, "identities of the donor") {
		t.Errorf("generalized: exit code %d\n%s", code, out)
	}
	if out, code = program(t, "verify", dir, "--profile", "bootstrap"); code != exit.Failed || !strings.Contains(out, "client.key") {
		t.Errorf("judged by a profile that keeps no credential: exit code %d\n%s", code, out)
	}
	if out, code = program(t, "verify", dir, "--all"); code != exit.Failed || !strings.Contains(out, "/usr/share/doc/example.pem") {
		t.Errorf("the whole tree: exit code %d\n%s", code, out)
	}
	out, _ = program(t, "verify", dir, "-o", "json")
	var v disk.SearchResult
	if err := json.Unmarshal([]byte(out), &v); err != nil || !v.Clean || v.Profile != "static" || v.Identities == 0 || len(v.Kept) != 1 {
		t.Errorf("got %v, %+v", err, v)
	}
	// verify finds a copy of a file by its hash, at any place.
	if err := os.WriteFile(filepath.Join(dir, "etc/copy"), []byte(hostKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code = program(t, "verify", dir); code != exit.Failed || !strings.Contains(out, "the donor's /etc/ssh/ssh_host_ed25519_key") {
		t.Errorf("a copy of the donor's key: exit code %d\n%s", code, out)
	}
}

// TestVerifyAFailedRun: a disk is not clean after a run without a proof, whatever the search finds.
func TestVerifyAFailedRun(t *testing.T) {
	dir := machineTree(t)
	key := filepath.Join(dir, "etc/vpn.conf")
	hash := "$6$salt$" + strings.Repeat("Ab3./xYz9QwErT", 7)[:86]
	if err := os.WriteFile(key, []byte(hash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code := program(t, "generalize", "--root", dir); code == exit.Done {
		t.Fatal("the run found nothing")
	}
	if out, code := program(t, "verify", dir); code != exit.Failed || !strings.HasPrefix(out, "Generalize run: failed: ") || !strings.Contains(out, "1 finding") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if out, code := program(t, "verify", dir); code != exit.Failed || !strings.Contains(out, "must not be copied: the run has no proof") {
		t.Errorf("without the file: exit code %d\n%s", code, out)
	}
	if out, code := program(t, "generalize", "--root", dir); code != exit.Done {
		t.Fatal(out)
	}
	if out, code := program(t, "verify", dir); code != exit.Done || !strings.Contains(out, " rules were met") {
		t.Errorf("after another run: exit code %d\n%s", code, out)
	}
	// As a run leaves the disk that ends in the middle.
	if err := os.WriteFile(filepath.Join(dir, "var/lib/kamino/unfinished"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := program(t, "verify", dir); code != exit.Failed || !strings.Contains(out, "did not come to its end") {
		t.Errorf("an unfinished run: exit code %d\n%s", code, out)
	}
}

func TestVerifyImage(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("mkfs.ext4 is needed: apt-get install e2fsprogs")
	}
	disk := func(dir string) string {
		name := filepath.Join(t.TempDir(), "disk.raw")
		if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", "-d", dir, name, "32M").CombinedOutput(); err != nil {
			t.Fatalf("mkfs.ext4: %v\n%s", err, out)
		}
		return name
	}
	dir, hostKey := livedIn(t)
	if err := os.Remove(filepath.Join(dir, "usr/share/doc/example.pem")); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "donor.txt")
	lines := fmt.Sprintf("%x  /etc/ssh/ssh_host_ed25519_key\n%x  /etc/machine-id\n", sha256.Sum256([]byte(hostKey)), sha256.Sum256([]byte("0123456789abcdef0123456789abcdef\n")))
	if err := os.WriteFile(list, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := program(t, "verify", disk(dir), "--identities", list)
	if code != exit.Failed || !strings.Contains(out, "the donor's /etc/machine-id") || !strings.Contains(out, "block in use") {
		t.Errorf("not generalized: exit code %d\n%s", code, out)
	}
	if out, code := program(t, "generalize", "--root", dir); code != exit.Done {
		t.Fatal(out)
	}
	name, manifest := disk(dir), filepath.Join(dir, generalize.ManifestPath)
	out, code = program(t, "verify", name, "--manifest", manifest, "--identities", list)
	if code != exit.Done || !strings.Contains(out, "/etc/kubernetes/certs/client.key: ") {
		t.Errorf("generalized: exit code %d\n%s", code, out)
	}
	// A deleted key still exists in a free block.
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(hostKey), 24<<20); err != nil {
		t.Fatal(err)
	}
	f.Close()
	out, code = program(t, "verify", name, "--manifest", manifest, "--free-only")
	if code != exit.Failed || !strings.Contains(out, "free block") || strings.Contains(out, hostKey[30:60]) {
		t.Errorf("a key in a free block: exit code %d\n%s", code, out)
	}
}

func TestVerifyUsage(t *testing.T) {
	dir := machineTree(t)
	file := filepath.Join(dir, "etc/hostname")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{filepath.Join(dir, "nowhere")}, "nowhere"},
		{[]string{dir, "--free-only"}, "for images"},
		{[]string{file, "--all"}, "for trees"},
		{[]string{dir, "--tree", dir}, "for images"},
		{[]string{dir, "--profile", "other"}, "unknown profile"},
		{[]string{dir, "--manifest", file}, "read the manifest"},
		{[]string{dir, "--identities", file}, "sha256sum"},
		{[]string{dir, "-o", "xml"}, "xml"},
	} {
		if out, code := program(t, append([]string{"verify"}, c.args...)...); code != exit.Usage || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit code %d, %q; want a sentence with %q", c.args, code, out, c.says)
		}
	}
}

// TestVerifyLooksIntoStores: records of containers have no files of their own.
func TestVerifyLooksIntoStores(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db")
	change := func(do func(containers *bolt.Bucket) error) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(name, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("v1"))
			for _, part := range []string{"k8s.io", "containers"} {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(part))
				}
			}
			return errors.Join(err, do(b))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	change(func(containers *bolt.Bucket) error {
		c, err := containers.CreateBucket([]byte("c1"))
		return errors.Join(err, c.Put([]byte("spec"), bytes.Repeat([]byte("an environment "), 1000)))
	})
	out, code := program(t, "verify", dir)
	if code != exit.Failed || !strings.Contains(out, "meta.db still has 1 containers") || !strings.Contains(out, "containerd-records") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	change(func(containers *bolt.Bucket) error { return containers.DeleteBucket([]byte("c1")) })
	if out, code = program(t, "verify", dir); code != exit.Failed || !strings.Contains(out, "hold removed data") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if out, code = program(t, "verify", dir); code != 0 {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// TestVerifyRefusesPipes: the search of a pipe without a writer would never end.
func TestVerifyRefusesPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{pipe}, {"/dev/null"}, {"/dev/zero", "--free-only"}, {pipe, "--all"}} {
		if out, code := program(t, append([]string{"verify"}, args...)...); code != exit.Usage || !strings.Contains(out, "write the data to a file first") {
			t.Errorf("verify %s ends with %d: %s", args, code, out)
		}
	}
}
