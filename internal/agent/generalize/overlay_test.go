package generalize

import (
	"crypto/md5"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/rules"
)

const ours = `
version: "ours.3"
extends: static
rules:
  - {id: our-data, action: refuse, allowable: true, paths: ["/data/*"], reason: hostPath volumes of ours, source: us}
agents:
  - name: acme
    units: [acme.service]
    rules:
      - {id: agent-acme, action: delete, paths: [/var/lib/acme/id], identity: true, reason: its ID, source: us}
exempt:
  - {rule: registry-credentials, reason: read-only pull account of the cluster}
  - {paths: ["/etc/acme/*.key"], reason: the same on all machines}
`

func loadOurs(t *testing.T, text string) (*rules.Profile, error) {
	t.Helper()
	return rules.LoadWith(v1alpha1.ProfileStatic, filepath.Join(plant(t, map[string]string{"ours.yaml": text}), "ours.yaml"))
}

func TestOverlay(t *testing.T) {
	p, err := loadOurs(t, ours)
	must(t, err)
	plain := load(t, v1alpha1.ProfileStatic)
	if p.Name != plain.Name || !strings.HasPrefix(p.Version, "1+ours.3-") || len(p.Rules) != len(plain.Rules)+2 || len(p.Stop) != len(plain.Stop)+1 {
		t.Errorf("got %s %s with %d rules and %d stops", p.Name, p.Version, len(p.Rules), len(p.Stop))
	}
	if p.Stop[1].Units[0] != "acme.service" {
		t.Error("the order is lost")
	}
	private := pemKey(t)
	dir := plant(t, node, map[string]string{"var/lib/acme/id": "c0ffee00-0000-4000-8000-00000000acme", "var/lib/kubelet/config.json": "{}", "etc/acme/shared.key": private})
	m, err := run(t, dir, runner(p))
	must(t, err)
	if exists(dir, "var/lib/acme/id") || !exists(dir, "var/lib/kubelet/config.json") {
		t.Error("the hook was not applied, or the exemption was not heeded")
	}
	i := slices.IndexFunc(m.Outcomes, func(o Outcome) bool { return o.Rule == "registry-credentials" })
	if o := m.Outcomes[i]; !o.Waived || o.Kept != "exempt: read-only pull account of the cluster" {
		t.Errorf("the manifest says %+v", o)
	}
	if len(m.Exempt) != 2 || len(m.Scan.Kept) != 1 || m.Scan.Kept[0].Kept != "exempt: the same on all machines" {
		t.Errorf("the manifest says %+v and %+v", m.Exempt, m.Scan)
	}
	writeFile(t, dir, "data/volume/file", "x")
	if _, err := run(t, dir, runner(p)); !strings.Contains(refusedOf(t, err).Error(), "our-data") {
		t.Errorf("got %v", err)
	}
	r := runner(p)
	r.Allow = []string{"our-data"}
	_, err = run(t, dir, r)
	must(t, err)
}

// TestOverlayDirectory has the files of a mounted ConfigMap.
func TestOverlayDirectory(t *testing.T) {
	dir := plant(t, map[string]string{
		"..2026/10-ours.yaml": ours, "..data": "-> ..2026", "10-ours.yaml": "-> ..data/10-ours.yaml",
		"20-files.yaml": "version: \"2\"\nrules:\n- {id: our-file, action: install, paths: [/etc/acme.conf], file: acme.conf, mode: \"0644\", reason: r, source: s}\n",
		"acme.conf":     "enrol: yes\n",
	})
	p, err := rules.LoadWith(v1alpha1.ProfileStatic, dir)
	must(t, err)
	if !strings.HasPrefix(p.Version, "1+ours.3+2-") {
		t.Errorf("got version %s", p.Version)
	}
	files := map[string][]byte{"10-ours.yaml": []byte(ours), ".hidden.yaml": []byte("x")}
	for _, name := range []string{"20-files.yaml", "acme.conf"} {
		files[name] = []byte(readFile(t, dir, name))
	}
	same, err := rules.LoadFiles(v1alpha1.ProfileStatic, files)
	must(t, err)
	if same.Version != p.Version || same.RulesDigest != p.RulesDigest || !strings.HasPrefix(p.RulesDigest, "sha256:") {
		t.Errorf("the ConfigMap is %s (%s), and mounted it is %s (%s)", same.Version, same.RulesDigest, p.Version, p.RulesDigest)
	}
	if _, err := rules.LoadFiles(v1alpha1.ProfileStatic, map[string][]byte{"acme.conf": nil}); err == nil {
		t.Error("files without rules were taken")
	}
	root := plant(t, node)
	_, err = run(t, root, runner(p))
	must(t, err)
	if readFile(t, root, "etc/acme.conf") != "enrol: yes\n" {
		t.Error("the file was not installed")
	}
}

func TestOverlayIsStrict(t *testing.T) {
	for text, says := range map[string]string{
		"rules: []":                                                                      "version must be given",
		"version: \"a b\"":                                                               "version must be given",
		"version: \"1\"\nruls: []":                                                       "ruls",
		"version: \"1\"\nextends: bootstrap":                                             "extends profile bootstrap",
		"version: \"1\"\nagents: [{name: a}]":                                            "needs a name and rules",
		strings.Replace(ours, "ours", "-", 1):                                            "version must be given",
		strings.Replace(ours, "/data", "d", 1):                                           "absolute",
		strings.Replace(ours, "id: our-data", "id: hostname", 1):                         "twice",
		strings.Replace(ours, "read-only pull account of the cluster", "\"\"", 1):        "needs a reason",
		strings.Replace(ours, "rule: registry-credentials", "rule: nothing", 1):          "no rule",
		strings.Replace(ours, "rule: registry-credentials", "rule: control-plane", 1):    "nothing is exempt",
		strings.Replace(ours, "rule: registry-credentials", "rule: machine-id", 1):       "nothing is exempt",
		strings.Replace(ours, "{rule: registry-credentials", "{rule: x, paths: [/x]", 1): "not both",
		strings.Replace(ours, "\"/etc/acme/*.key\"", "\"/**\"", 1):                       "everything",
	} {
		if _, err := loadOurs(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q, for\n%s", err, says, text)
		}
	}
	for _, from := range []string{t.TempDir(), filepath.Join(t.TempDir(), "nowhere")} {
		if _, err := rules.LoadWith(v1alpha1.ProfileStatic, from); err == nil {
			t.Errorf("%s was read", from)
		}
	}
}

func TestDetect(t *testing.T) {
	static := map[string]string{"etc/kubernetes/certs/client.key": "x", "etc/kubernetes/azure.json": "{}"}
	bootstrap := map[string]string{"etc/kubernetes/kubelet.conf": "x", "var/lib/kubelet/pki/kubelet-client-current.pem": "x"}
	for _, c := range []struct {
		is    string
		files []map[string]string
		want  v1alpha1.Profile
		says  string
	}{
		{"AKS Engine", []map[string]string{static}, v1alpha1.ProfileStatic, ""},
		{"kubeadm", []map[string]string{bootstrap}, v1alpha1.ProfileBootstrap, ""},
		{"AKS, TLS bootstrap", []map[string]string{{"etc/kubernetes/azure.json": "{}", "var/lib/kubelet/bootstrap-kubeconfig": "x"}}, v1alpha1.ProfileBootstrap, ""},
		{"both", []map[string]string{static, bootstrap}, "", "in doubt"},
		{"neither", []map[string]string{{"etc/kubernetes/azure.json": "{}"}}, "", "pass --profile"},
		{"generalized before", []map[string]string{{"var/lib/kamino/generalize.json": `{"profile":"bootstrap","profileVersion":"1-x"}`}}, v1alpha1.ProfileBootstrap, ""},
	} {
		dir := plant(t, append(c.files, node)...)
		got, found, err := Detect(open(t, dir))
		if c.says != "" {
			if !strings.Contains(refusedOf(t, err).Error(), c.says) {
				t.Errorf("%s: got %v, want %q", c.is, err, c.says)
			}
			continue
		}
		if err != nil || got != c.want || len(found) == 0 {
			t.Errorf("%s: got %s (%v), %v; want %s", c.is, got, found, err, c.want)
		}
		for _, asked := range v1alpha1.Profiles() {
			err := Agree(open(t, dir), asked)
			if (err == nil) != fits(asked, c.want) {
				t.Errorf("%s, asked for %s: %v", c.is, asked, err)
			}
			if right := "pass --profile " + string(c.want); err != nil && !strings.Contains(refusedOf(t, err).Error(), right) {
				t.Errorf("%s, asked for %s, is not given the right profile: %v", c.is, asked, err)
			}
		}
	}
	for _, asked := range v1alpha1.Profiles() {
		if asked != v1alpha1.ProfileEKS { // profile EKS requires nodeadm: TestEKSNeedsNodeadm
			must(t, Agree(open(t, plant(t, node)), asked))
		}
		if err := Agree(open(t, plant(t, static, bootstrap)), asked); err == nil {
			t.Errorf("a disk in doubt agrees with %s", asked)
		} else if strings.Contains(err.Error(), "name it with") {
			t.Errorf("a disk in doubt is given which profile it has: %v", err)
		}
	}
}

// TestUnknownSecrets tests secrets that only the search finds. The refusal names the rule and hides the content.
func TestUnknownSecrets(t *testing.T) {
	p, private := load(t, v1alpha1.ProfileStatic), pemKey(t)
	for path, says := range map[string]string{
		"etc/vpn/server.key":               "no rule covers the path",
		"var/lib/agent/state/token.pem":    "no rule covers the path",
		"home/bob/backup/id_rsa":           "no rule covers the path",
		"var/lib/waagent/WALinuxAgent-2/k": "waagent-state",
	} {
		dir := plant(t, node, map[string]string{path: private})
		m, err := run(t, dir, runner(p))
		unmet := unmetOf(t, err).Error()
		if !strings.Contains(unmet, "/"+path) || !strings.Contains(unmet, says) || strings.Contains(unmet, private[40:60]) {
			t.Errorf("%s: got %q", path, unmet)
		}
		if _, err := m.Proof(runner(p).Now()); err == nil {
			t.Errorf("%s: there is a proof", path)
		}
	}
	dir := plant(t, node, map[string]string{"etc/kubernetes/certs/client.key": private, "usr/share/doc/x/example.key": private, "var/lib/dpkg/info/x.md5sums": fmt.Sprintf("%x  usr/share/doc/x/example.key\n", md5.Sum([]byte(private)))})
	m, err := run(t, dir, runner(p))
	must(t, err)
	if len(m.Scan.Kept) != 1 || m.Scan.Kept[0].Rule != "cluster-credential" || m.Known()[m.Scan.Kept[0].SHA256] == "" {
		t.Errorf("got %+v", m.Scan)
	}
	// The donor's identity is in a place that no rule covers.
	_, err = run(t, plant(t, node, map[string]string{"var/lib/agent/uid": node["etc/machine-id"]}), runner(p))
	if unmet := unmetOf(t, err).Error(); !strings.Contains(unmet, "the donor's /etc/machine-id in /var/lib/agent/uid") {
		t.Errorf("got %q", unmet)
	}
}

func TestProofNeedsSearch(t *testing.T) {
	r := runner(load(t, v1alpha1.ProfileStatic))
	m, err := run(t, plant(t, node), r)
	must(t, err)
	m.Scan = nil
	var unmet *UnprovenError
	if _, err := m.Proof(r.Now()); !errors.As(err, &unmet) {
		t.Errorf("a proof without a search: %v", err)
	}
	m.Scan = &scan.Report{Count: 1}
	if _, err := m.Proof(r.Now()); !errors.As(err, &unmet) {
		t.Errorf("a proof with a finding that is not listed: %v", err)
	}
}

func TestReadManifests(t *testing.T) {
	dir := plant(t, node)
	m, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	again, err := ReadManifest(open(t, dir))
	must(t, err)
	if a, _ := m.Digest(); again == nil || len(again.Identities()) == 0 {
		t.Errorf("read %+v", again)
	} else if b, _ := again.Digest(); a != b {
		t.Errorf("the manifest that was read has digest %s, want %s", b, a)
	}
	for _, bad := range []string{"{", "{}", "[]"} {
		if _, err := ParseManifest([]byte(bad)); err == nil {
			t.Errorf("%q was read as a manifest", bad)
		}
	}
	must(t, os.RemoveAll(filepath.Join(dir, "var/lib/kamino")))
	if m, err := ReadManifest(open(t, dir)); m != nil || err != nil {
		t.Errorf("got %v, %v", m, err)
	}
}
