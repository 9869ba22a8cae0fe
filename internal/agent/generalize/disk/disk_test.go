package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/rules"
)

const hostKey = "etc/ssh/ssh_host_rsa_key"

// machine returns the root of a machine before generalization. The node joined with a static credential.
func machine(t *testing.T, more ...string) Root {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/hostname": "donor\n", hostKey: "the donor's own key\n",
		"etc/kubernetes/certs/client.crt": "x", "var/log/syslog": "x",
	}
	for _, name := range more {
		files[name] = "x"
	}
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Root{Path: dir}
}

func readFile(t *testing.T, r Root, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.Path, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(content)
}

// code returns the exit code of an error; 1 for an error without an exit code, and 0 for nil.
func code(err error) int {
	var knows interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &knows):
		return knows.ExitCode()
	}
	return 1
}

func runner(p *rules.Profile) *generalize.Runner {
	return &generalize.Runner{Profile: p, Now: func() time.Time { return time.Unix(1795240800, 0) }}
}

// TestOwnRootIsRefused by mistake, for any spelling of the root.
func TestOwnRootIsRefused(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/": refused, "/proc/self/root": refused, link: refused, "/../": refused, t.TempDir(): 0, "/nowhere": misuse} {
		if err := (Root{Path: path}).Spare(); code(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if own, err := (Root{Path: "/nowhere"}).Own(); own || err == nil {
		t.Errorf("a root that is not there is the own one: %t, %v", own, err)
	}
	if _, err := (Root{Path: "/nowhere"}).Open(); code(err) != misuse {
		t.Errorf("it is opened: %v", err)
	}
}

func TestRulesOfDisk(t *testing.T) {
	static, both := machine(t), machine(t, "etc/kubernetes/kubelet.conf")
	unknown := Root{Path: t.TempDir()}
	bootstrap := machine(t, "etc/kubernetes/kubelet.conf")
	if err := os.RemoveAll(filepath.Join(bootstrap.Path, "etc/kubernetes/certs")); err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(t.TempDir(), "ours.yaml")
	if err := os.WriteFile(ours, []byte("version: \"1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := Rules{Profile: v1alpha1.ProfileStatic, File: ours}.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		root  Root
		rules Rules
		want  v1alpha1.Profile
		code  int
	}{
		"found on the disk":         {static, Rules{}, v1alpha1.ProfileStatic, 0},
		"found on the other disk":   {bootstrap, Rules{}, v1alpha1.ProfileBootstrap, 0},
		"named, and agreed to":      {static, Rules{Profile: v1alpha1.ProfileStatic}, v1alpha1.ProfileStatic, 0},
		"named against the disk":    {static, Rules{Profile: v1alpha1.ProfileBootstrap}, "", refused},
		"named, and in doubt":       {both, Rules{Profile: v1alpha1.ProfileStatic}, "", refused},
		"in doubt":                  {both, Rules{}, "", refused},
		"nothing found":             {unknown, Rules{}, "", refused},
		"nothing found but a word":  {unknown, Rules{Profile: v1alpha1.ProfileStatic}, v1alpha1.ProfileStatic, 0},
		"named as there is none":    {static, Rules{Profile: "other"}, "", misuse},
		"a file that is not there":  {static, Rules{File: "/nowhere.yaml"}, "", misuse},
		"the rules of the order":    {static, Rules{File: ours, Digest: known.RulesDigest}, v1alpha1.ProfileStatic, 0},
		"others than of the order":  {static, Rules{File: ours, Digest: "sha256:0"}, "", refused},
		"none, and an order's":      {static, Rules{Digest: "sha256:0"}, "", refused},
		"no disk":                   {Root{Path: "/nowhere"}, Rules{}, "", misuse},
		"no disk, though it is own": {Root{Path: "/nowhere", Running: true}, Rules{}, "", misuse},
	} {
		p, err := test.rules.LoadFor(test.root)
		if code(err) != test.code || (p == nil) != (test.code != 0) || p != nil && p.Name != test.want {
			t.Errorf("%s: %v, want exit code %d", name, err, test.code)
		}
	}
}

// TestProfileUnknown: verify lists no files of system programs on a disk without a profile and a manifest.
func TestProfileUnknown(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"var/lib/dpkg/info/libuuid1:amd64.list", "var/lib/shells.state", "opt/acme/agent_id"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Search{Target: dir}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Profile != "" || found.Possible.Count != 1 || found.Unknown.Files != 1 {
		t.Errorf("profile %q, %q may hold an identity, and %d files are unknown", found.Profile, found.Possible.First, found.Unknown.Files)
	}
}

// TestGeneralize: a disk before generalization fails the check, and a generalized disk passes until data of the donor
// returns.
func TestGeneralize(t *testing.T) {
	root := machine(t)
	key := readFile(t, root, hostKey)
	profile, err := Rules{}.LoadFor(root)
	if err != nil {
		t.Fatal(err)
	}
	dry := runner(profile)
	dry.DryRun = true
	if m, err := Generalize(t.Context(), root, dry, ""); err != nil || !m.DryRun || readFile(t, root, hostKey) != key {
		t.Errorf("a dry run: %v, the key is %q", err, readFile(t, root, hostKey))
	}
	file := filepath.Join(t.TempDir(), "manifest.json")
	m, err := Generalize(t.Context(), root, runner(profile), file)
	if err != nil || m.Met != m.Rules || readFile(t, root, hostKey) != "" {
		t.Fatalf("%v, the key is %q", err, readFile(t, root, hostKey))
	}
	if outside, err := os.ReadFile(file); err != nil || string(outside) != readFile(t, root, generalize.ManifestPath) {
		t.Errorf("the manifests differ (%v)", err)
	}
	found, err := Search{Target: root.Path}.Run(t.Context())
	if err != nil || !found.Clean || found.Identities == 0 || found.Profile != v1alpha1.ProfileStatic || found.Files == 0 {
		t.Fatalf("%v, %+v", err, found)
	}
	if err := os.WriteFile(filepath.Join(root.Path, "etc/copy"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Search{{Target: root.Path}, {Target: root.Path, Manifest: file}, {Target: root.Path, All: true}} {
		if found, err = s.Run(t.Context()); err != nil || found.Clean || found.Count != 1 {
			t.Errorf("%+v: %v, %+v", s, err, found)
		}
	}
	if err := os.WriteFile(filepath.Join(root.Path, generalize.ManifestPath), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Search{Target: root.Path}).Run(t.Context()); code(err) != misuse {
		t.Errorf("a manifest that is none: %v", err)
	}
}

// TestManifestCannotBeWritten: the run reports the failure and the finished work.
func TestManifestCannotBeWritten(t *testing.T) {
	root := machine(t)
	profile, err := Rules{}.LoadFor(root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Generalize(t.Context(), root, runner(profile), filepath.Join(t.TempDir(), "no", "manifest.json"))
	if err == nil || m == nil || m.Met == 0 {
		t.Errorf("%v, %+v", err, m)
	}
}

func TestLook(t *testing.T) {
	root := machine(t)
	profile, err := Rules{}.LoadFor(root)
	if err != nil {
		t.Fatal(err)
	}
	root.Running = true
	if _, err := Preflight(t.Context(), root, runner(profile)); err != nil {
		t.Errorf("nothing is in the way: %v", err)
	}
	controlPlane := machine(t, "etc/kubernetes/manifests/kube-apiserver.yaml", "var/lib/etcd/member/wal")
	controlPlane.Running = true
	if _, err := Preflight(t.Context(), controlPlane, runner(profile)); code(err) != refused {
		t.Errorf("a control plane: %v", err)
	}
	never := *profile
	never.NotLive = "it loses its credential"
	if _, err := Preflight(t.Context(), root, runner(&never)); err != nil {
		t.Errorf("a donor that does not return is looked at like any other: %v", err)
	}
	if got := readFile(t, root, hostKey); got == "" {
		t.Error("a look took the key")
	}
}

// TestHostNeedsOrder: an incomplete pod is refused before a change of the host.
func TestHostNeedsOrder(t *testing.T) {
	root := machine(t)
	profile, err := Rules{}.LoadFor(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, order := range map[string]Order{
		"no API server": {Name: "ns/o", UID: "u"},
		"no token":      {Name: "ns/o", UID: "u", Access: host.Access{Host: "127.0.0.1", Port: "1", TokenFile: "/nowhere", CAFile: "/nowhere"}},
	} {
		err := GeneralizeHost(t.Context(), host.Host{Root: root.Path, Runner: runner(profile), Log: t.Output()}, order)
		if code(err) != refused || !strings.HasSuffix(err.Error(), "nothing was changed") || readFile(t, root, hostKey) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnsearchableDisks(t *testing.T) {
	root := machine(t)
	image := filepath.Join(root.Path, "etc/hostname")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Search{
		"nowhere":                {Target: "/nowhere"},
		"a pipe":                 {Target: pipe},
		"an endless device":      {Target: "/dev/zero", FreeOnly: true},
		"free blocks of a tree":  {Target: root.Path, FreeOnly: true},
		"a tree of a tree":       {Target: root.Path, Mounted: root.Path},
		"all of an image":        {Target: image, All: true},
		"a manifest nowhere":     {Target: root.Path, Manifest: "/nowhere"},
		"identities nowhere":     {Target: root.Path, Identities: "/nowhere"},
		"identities that are no": {Target: root.Path, Identities: image},
		"an unknown profile":     {Target: image, Rules: Rules{Profile: "other"}},
		"rules for no profile":   {Target: image, Rules: Rules{File: filepath.Join(t.TempDir(), "rules.yaml")}},
	} {
		if found, err := s.Run(t.Context()); code(err) != misuse {
			t.Errorf("%s: %v, %+v", name, err, found)
		}
	}
}

func TestLeaveError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	LeaveError(file, errors.New("no request"))
	if _, err := os.Stat(file); err == nil {
		t.Error("a file is made where there is none")
	}
	if err := os.WriteFile(file, []byte("what was there before, which is longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	LeaveError(file, nil)
	if content, _ := os.ReadFile(file); !strings.HasPrefix(string(content), "what was there") {
		t.Errorf("success leaves %q", content)
	}
	LeaveError(file, errors.New("line\nbreak"))
	if content, _ := os.ReadFile(file); string(content) != "line\ufffdbreak" {
		t.Errorf("it says %q", content)
	}
}
