// Package identity tests the protection between a donor's disk and an image, end to end. A secret without a rule
// stops the capture, and user rules remove the secret. The verified facts are shown everywhere, and the published
// disk confirms them.
package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, world.Options{TimeScale: 200}, &sandbox))
}

// donor is a machine whose disk has the key of an agent without a rule.
type donor struct {
	node, set, disk string
	key             []byte
	boots           int
}

// keyPath is in a directory that Kamino searches.
const keyPath = "/etc/acme/agent.key"

func newDonor(t *testing.T, pool string) donor {
	t.Helper()
	sandbox.Install(t)
	machine := sandbox.Pool(t, "name="+pool+",nodes=2")[0]
	d := donor{node: machine.Node, set: path.Base(machine.Pool), boots: machine.Boots}
	d.disk = strings.TrimSpace(sandbox.Must(t, "kamino-sandbox", "disk", d.node))
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	d.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	d.plant(t)
	return d
}

func (d donor) plant(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(d.disk+keyPath), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.disk+keyPath, d.key, 0o600); err != nil {
		t.Fatal(err)
	}
}

// leaks says whether a text holds a line of the key.
func (d donor) leaks(text string) bool {
	return strings.Contains(text, strings.Split(string(d.key), "\n")[1])
}

// described is as much of `kamino describe -o json` as the tests read.
type described struct {
	Prototype v1alpha1.Prototype
	Proof     *v1alpha1.Proof
}

func describe(t *testing.T, prototype string) (d described) {
	t.Helper()
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "describe", prototype, "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// prototypesOf a scale set, oldest first.
func prototypesOf(t *testing.T, set string) []string {
	t.Helper()
	out := sandbox.Must(t, "kubectl", "get", "prototypes", "-o", "name", "-l", v1alpha1.PoolLabel+"="+v1alpha1.ObjectName(set), "--sort-by",
		".metadata.creationTimestamp")
	return strings.Fields(strings.ReplaceAll(out, "prototype.kamino.dev/", ""))
}

// TestSecretStopsTheCapture: Kamino finds the key while the donor serves, so the donor is neither drained nor rebooted.
func TestSecretStopsTheCapture(t *testing.T) {
	t.Parallel()
	d := newDonor(t, "secretive")
	result := sandbox.Run(t, nil, "kamino", unverified.Capture(d.node)...)
	if want := "private key (PEM) in " + keyPath + "\n"; result.Code != 3 || !strings.Contains(result.Stderr, want) {
		t.Fatalf("exit code %d, want 3 and the sentence %q:\n%s", result.Code, want, result.Stderr)
	}
	names := prototypesOf(t, d.set)
	if len(names) != 1 {
		t.Fatalf("prototypes: %v", names)
	}
	got := describe(t, names[0])
	failure := got.Prototype.Status.Failure
	if failure == nil || failure.Reason != "DiskCheckFailed" || !strings.Contains(failure.Message, keyPath) {
		t.Errorf("the failure is %+v", failure)
	}
	if got.Proof != nil || got.Prototype.Status.Image != nil {
		t.Errorf("proof %+v, image %+v", got.Proof, got.Prototype.Status.Image)
	}
	everything := result.Stderr + result.Stdout + sandbox.Must(t, "kubectl", "get", "prototypes", "-o", "json")
	if d.leaks(everything) {
		t.Error("the key is in the output")
	}
	var status struct{ Pools []struct{ Versions []any } }
	if err := json.Unmarshal([]byte(sandbox.Must(t, "kamino", "status", d.set, "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Pools) != 1 || len(status.Pools[0].Versions) > 0 {
		t.Errorf("a version was made: %+v", status)
	}
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), d.node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !nodestate.Ready(node) || node.Spec.Unschedulable || node.Annotations[v1alpha1.ReservationAnnotation] != "" {
		t.Errorf("node %s was not released as it was: %+v", d.node, node.Spec)
	}
	if now := sandbox.MachinesOf(t, "secretive")[0]; now.Boots != d.boots {
		t.Errorf("the donor has booted %d times since", now.Boots-d.boots)
	}
}

// TestDifferentFilesStopTheCapture: the ID of an agent differs on two nodes, and the configuration of the agent does not.
func TestDifferentFilesStopTheCapture(t *testing.T) {
	t.Parallel()
	sandbox.Install(t)
	machines := sandbox.Pool(t, "name=compared,nodes=2")
	for i, m := range machines {
		dir := filepath.Join(strings.TrimSpace(sandbox.Must(t, "kamino-sandbox", "disk", m.Node)), "opt/acme")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"settings": "equal\n", "agent-id": []string{"first\n", "second\n"}[i]} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	donor, peer := machines[0].Node, machines[1].Node
	capture := unverified.Capture(donor, "-f", sandboxtest.SettingsFile(t, "generalize: {unknownFiles: RefuseDifferent}"))
	// The disks of simulated machines also have a few files of /proc and /sys that differ.
	want := "have another content on node " + peer + ", and may hold an identity: /opt/acme/agent-id"
	result := sandbox.Run(t, nil, "kamino", capture...)
	if result.Code != 3 || !strings.Contains(result.Stderr, want) || strings.Contains(result.Stderr, "/opt/acme/settings") {
		t.Fatalf("exit code %d, want 3, the sentence %q and no equal file:\n%s", result.Code, want, result.Stderr)
	}
	pods := sandbox.Must(t, "kubectl", "get", "pods", "-n", "kamino-generalize", "-l",
		v1alpha1.PrototypeLabel+"="+v1alpha1.LabelValue(prototypesOf(t, path.Base(machines[0].Pool))[0]), "-o", "name")
	if pods != "" {
		t.Errorf("pods are left: %s", pods)
	}
}

// ours removes the key, and lets another stay for a reason.
const ours = `version: ours1
agents:
- name: acme
  units: [acme-agent.service]
  rules:
  - {id: agent-acme, action: delete, identity: true, paths: ["/etc/acme/*.key"], reason: The agent's key; it enrols again., source: the test}
`

func TestCustomRules(t *testing.T) {
	t.Parallel()
	d := newDonor(t, "ruled")
	capture := unverified.Capture(d.node, "-f", sandboxtest.SettingsFile(t, "generalize: {rules: acme-rules}"))
	result := sandbox.Run(t, nil, "kamino", capture...)
	if result.Code != 3 || !strings.Contains(result.Stderr, "ConfigMap kamino-generalize/acme-rules of settings.generalize.rules not found") {
		t.Fatalf("exit code %d, want 3:\n%s", result.Code, result.Stderr)
	}
	file := filepath.Join(t.TempDir(), "acme.yaml")
	apply := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sandbox.Run(t, nil, "kubectl", "-n", "kamino-generalize", "delete", "configmap", "acme-rules", "--ignore-not-found")
		sandbox.Must(t, "kubectl", "-n", "kamino-generalize", "create", "configmap", "acme-rules", "--from-file", file)
	}
	apply("version: ours1\nruls: []\n")
	result = sandbox.Run(t, nil, "kamino", capture...)
	if result.Code != 3 || !strings.Contains(result.Stderr, "RulesInvalid") || !strings.Contains(result.Stderr, "ruls") {
		t.Fatalf("exit code %d, want 3:\n%s", result.Code, result.Stderr)
	}
	apply(ours)
	sandbox.Must(t, "kamino", capture...)

	names := prototypesOf(t, d.set)
	got := describe(t, names[len(names)-1])
	v := got.Proof
	sum := sha256.Sum256([]byte(ours))
	if v == nil || v.RulesDigest != "sha256:"+hex.EncodeToString(sum[:]) || !strings.HasPrefix(v.ProfileVersion, "1+ours1-") {
		t.Fatalf("verified is %+v", v)
	}
	if v.Met == 0 || v.Changed == 0 || v.Search == nil || v.Search.Files == 0 || v.Search.Identities == 0 || v.Search.Findings != 0 {
		t.Errorf("verified is %+v", v)
	}
	status := sandbox.Must(t, "kamino", "status", d.set, "-o", "json")
	if !strings.Contains(status, `"verified": "`+v.Verified()+`"`) {
		t.Errorf("the version's tags do not say %q:\n%s", v.Verified(), status)
	}
	page := sandbox.Must(t, "kamino", "describe", names[len(names)-1])
	if !strings.Contains(page, "ConfigMap acme-rules, "+v.RulesDigest) || !strings.Contains(page, "0 forbidden") {
		t.Errorf("the description is\n%s", page)
	}
	d.checkImage(t, v)
}

// checkImage reads the disk of a node of the version.
func (d donor) checkImage(t *testing.T, v *v1alpha1.Proof) {
	t.Helper()
	sandbox.Must(t, "kamino-sandbox", "scale", "ruled", "3", "--wait")
	machines := sandbox.MachinesOf(t, "ruled")
	clone := strings.TrimSpace(sandbox.Must(t, "kamino-sandbox", "disk", machines[len(machines)-1].Node))
	if _, err := os.Stat(clone + keyPath); err == nil {
		t.Error("the clone has the agent's key")
	}
	manifest, err := os.ReadFile(clone + "/var/lib/kamino/generalize.json")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(manifest); "sha256:"+hex.EncodeToString(sum[:]) != v.ManifestDigest {
		t.Error("the manifest on the clone differs from the reported manifest")
	}
	if d.leaks(string(manifest)) {
		t.Error("the key is in the manifest")
	}
}
