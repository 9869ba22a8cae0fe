package generalize

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

const donor = "k8s-pool1-12345678-vmss000004"

const donorID = "0123456789abcdef0123456789abcdef"

// node is a tree with the files of every machine. The secrets are made of words.
var node = map[string]string{
	"etc/machine-id":     donorID + "\n",
	"etc/hostname":       donor + "\n",
	"etc/hosts":          "127.0.0.1 localhost\n127.0.1.1 " + donor + "\n10.240.0.7 " + donor + ".internal " + donor + " registry # shared\n::1 ip6-localhost\n",
	"etc/fstab":          "UUID=aaaa / ext4 defaults 0 1\n/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail,comment=cloudconfig 0 2\n/swapfile none swap sw 0 0\n",
	"etc/passwd":         "root:x:0:0::/root:/bin/bash\npacker:x:1001:1001::/home/packer:/bin/bash\nazureuser:x:1000:1000::/home/azureuser:/bin/bash\n",
	"usr/lib/os-release": "NAME=Ubuntu\nID=ubuntu\n",
	"var/log/syslog":     "a line\n",

	"usr/bin/cloud-init":                                                  "#!/usr/bin/python3\n",
	"usr/lib/systemd/system/cloud-init-local.service":                     "[Unit]\n[Install]\nWantedBy=cloud-init.target\n",
	"etc/systemd/system/cloud-init.target.wants/cloud-init-local.service": "-> /usr/lib/systemd/system/cloud-init-local.service",
	"usr/bin/nodeadm":                                                     "\x7fELF",
	"usr/lib/systemd/system/nodeadm-run.service":                          "[Unit]\n",
}

// plant creates a tree of files. A content that begins with "-> " makes a link; a name that ends in "/" makes a
// directory.
func plant(t *testing.T, files ...map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, set := range files {
		for name, content := range set {
			writeFile(t, dir, name, content)
		}
	}
	return dir
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	if target, link := strings.CutPrefix(content, "-> "); link {
		must(t, os.Symlink(target, p))
	} else if strings.HasSuffix(name, "/") {
		must(t, os.MkdirAll(p, 0o755))
	} else {
		must(t, os.WriteFile(p, []byte(content), 0o644))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *tree.Tree {
	t.Helper()
	opened, err := tree.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// profiles has each profile once: reading one takes as long as a run.
var profiles = map[v1alpha1.Profile]*rules.Profile{}

// load returns a profile that the test may change: its lists of rules and makers are copies.
func load(t *testing.T, name v1alpha1.Profile) *rules.Profile {
	t.Helper()
	if profiles[name] == nil {
		read, err := rules.Load(name)
		must(t, err)
		profiles[name] = read
	}
	p := *profiles[name]
	p.Rules, p.Makers = slices.Clone(p.Rules), slices.Clone(p.Makers)
	return &p
}

func runner(p *rules.Profile) *Runner {
	return &Runner{
		Profile: p, Tool: "v0.0.0-test",
		Subject: RunSubject{Prototype: "pool1-2026.11.21", UID: "0f0e", BootID: "b007"},
		Now:     func() time.Time { return time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC) },
	}
}

// run runs on a tree. Before, it asks what a look at the donor would say: with the same answer, or the test fails.
func run(t *testing.T, dir string, r *Runner) (*Manifest, error) {
	t.Helper()
	// Only a run sees files below mounts.
	if r.DryRun || r.skip != nil || r.Below != nil {
		return r.Run(t.Context(), open(t, dir))
	}
	look := lookAt(t, dir, r)
	m, err := r.Run(t.Context(), open(t, dir))
	agree(t, dir, r, look, err)
	return m, err
}

// lookAt returns the refusal of a look, which changes nothing.
func lookAt(t *testing.T, dir string, r *Runner) error {
	t.Helper()
	quiet := *r
	quiet.Quiet = false // of a donor, and not of the disk
	_, err := quiet.Preflight(t.Context(), open(t, dir))
	return err
}

// agree fails the test unless look, run and verification say the same about a disk.
func agree(t *testing.T, dir string, r *Runner, look, run error) {
	t.Helper()
	if (look == nil) != (run == nil) {
		t.Errorf("the look and the run disagree\nlook: %v\nrun:  %v", look, run)
		return
	}
	if run != nil {
		return
	}
	m, err := ReadManifest(open(t, dir))
	must(t, err)
	if m == nil || m.Failed() != nil || Unfinished(open(t, dir)) {
		t.Errorf("a run with success leaves the manifest %v", m)
	}
	report, err := scan.Tree(t.Context(), dir, scan.Options{Identities: m.Identities(), Owner: Owner(r.Profile, r.Allow...), Base: Base(r.Profile)})
	must(t, err)
	if report.Count > 0 {
		t.Errorf("the run finds nothing, and the verification finds %+v", report.Findings)
	}
}

// snapshot returns the mode, and the content or link target, of everything in a tree.
func snapshot(t *testing.T, dir string, leaveOut ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		must(t, err)
		if slices.Contains(leaveOut, rel) {
			return nil
		}
		info, err := d.Info()
		must(t, err)
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			must(t, err)
			text += " " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			must(t, err)
			text += " -> " + target
		}
		all[rel] = text
		return nil
	}))
	return all
}

func exists(dir, p string) bool {
	_, err := os.Lstat(filepath.Join(dir, p))
	return err == nil
}

func readFile(t *testing.T, dir, p string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, p))
	must(t, err)
	return string(content)
}

func unmetOf(t *testing.T, err error) *UnprovenError {
	t.Helper()
	var unmet *UnprovenError
	if !errors.As(err, &unmet) {
		t.Fatalf("want an *Unmet, got %v", err)
	}
	return unmet
}

func refusedOf(t *testing.T, err error) *Refused {
	t.Helper()
	var refused *Refused
	if !errors.As(err, &refused) {
		t.Fatalf("want a *Refused, got %v", err)
	}
	return refused
}

// pemKey returns a new private key for the test.
func pemKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
