package kubeadm

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
)

// maxMemory is the limit for the memory of a capture, in MiB. make bench measures 20 to 22 MiB.
const maxMemory = 28

// TestCapture captures a node that joined with kubeadm, and then a copy. Both donors serve all the time with their pods. Then the pool
// returns to the first version, and to the platform's image. Only Kamino deletes the Nodes of removed instances here.
func TestCapture(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "name=captured,nodes=2")
	donor, neighbour := e.Machines[0], e.Machines[1]
	identities := map[string]map[string]string{donor.Node: e.identityOf(donor), neighbour.Node: e.identityOf(neighbour)}
	built := e.specOf(donor)
	e.Must(sandbox.Patch(t.Context(), donor.Node, control.Patch{Reboot: true}, func(control.Event) {}))
	donor = e.Machine(donor.Node)
	flags := e.copyFlags(donor)
	e.Environ = append(e.Environ, "GOGC=") // of the tests; the limit of memory is for Kamino's own

	p := e.captureByCopy(donor, flags...)
	first, second := e.Grow(), e.Grow()
	for _, copied := range []machine.Status{first, second} {
		e.assertCopy(copied, p.Spec.Version, identities)
		identities[copied.Node] = e.identityOf(copied)
		if spec := e.specOf(copied); string(spec.CustomData) != string(built.CustomData) || len(spec.Extensions) != len(built.Extensions) {
			t.Errorf("the recipe of node %s is not the donor's: %d extensions, customData of %d bytes", copied.Node, len(spec.Extensions), len(spec.CustomData))
		}
		if !maps.Equal(copied.Packages, donor.Packages) || copied.Boots != 1 ||
			slices.ContainsFunc(donor.Images, func(i string) bool { return !slices.Contains(copied.Images, i) }) {
			t.Errorf("node %s has other packages or images than its donor, or booted %d times", copied.Node, copied.Boots)
		}
	}
	e.Start("history", e.Group, "-o", "wide").ExpectExit(0, p.Spec.Version, donor.Node, "bootstrap/")
	doctor := e.Start("doctor", e.Group)
	code := doctor.ExitCode()
	// Azure never returns customData, so a capture needs the file.
	needsFile := doctor.HasOutput("#poolnotcopyable") && doctor.HasOutput(" 1 fail")
	if code > 1 && !needsFile {
		t.Errorf("doctor exited with %d", code)
	}
	e.testWayBack(first, second, p.Spec.Version, flags)
}

// copyFlags are the flags of a capture that copies the donor. On AWS, copies are the default. On Azure, the
// workshop joins by the pool's customData, which Azure never returns: without the file, the capture is refused.
func (e env) copyFlags(donor machine.Status) []string {
	e.Helper()
	if sandbox.Azure() == nil {
		return nil
	}
	flags, before := []string{"--method", string(v1alpha1.MethodCopy)}, e.State()
	e.Capture(donor.Node, flags...).ExpectExit(exitRefused, "PoolNotCopyable", "--custom-data FILE")
	e.AssertState(before)
	file := filepath.Join(e.TempDir(), "cloud-init.yaml")
	e.Must(os.WriteFile(file, e.specOf(donor).CustomData, 0o600))
	return append(flags, "--custom-data", file)
}

// captureByCopy captures a node, which serves all the time with the same boot, Node and pods. Only the workshop joins meanwhile.
func (e env) captureByCopy(donor machine.Status, flags ...string) *v1alpha1.Prototype {
	e.Helper()
	pods, node, before, requests := e.runPod(donor.Node), e.Node(donor.Node), e.State(), e.countRequests()
	capture := e.Capture(donor.Node, flags...)
	memory := capture.WatchMemory()
	capture.ExpectExit(0, "node "+donor.Node+" is no longer reserved, and stayed in service", "out of service for 0s", "now builds new nodes from version ")
	if peak := memory() >> 20; peak == 0 || peak > maxMemory {
		e.Errorf("the capture needed %d MiB of memory, want at most %d", peak, maxMemory)
	}
	e.AssertCopied(before, donor.Node)
	if now := e.countRequests(); now != requests+1 {
		e.Errorf("the workshop asked for %d certificates", now-requests)
	}
	if now := e.podsOn(donor.Node); !maps.Equal(now, pods) {
		e.Errorf("the donor has the pods %v, and had %v", now, pods)
	}
	if now := e.Machine(donor.Node); now.BootID != donor.BootID || now.MachineID != donor.MachineID || e.Node(donor.Node).UID != node.UID {
		e.Errorf("donor %s was rebooted or rebuilt: %+v", donor.Node, now)
	}
	e.AssertServes(donor.Node)
	all := e.Prototypes()
	p := &all[len(all)-1]
	if frozen := p.Status.Donor.FrozenFor; frozen == nil || frozen.Duration <= 0 {
		e.Errorf("the disk was frozen for %v", frozen)
	}
	if p.Spec.Settings.Generalize.Profile != v1alpha1.ProfileBootstrap {
		e.Errorf("the profile is %q", p.Spec.Settings.Generalize.Profile)
	}
	return p
}

// testWayBack captures a copy, rolls back to the version before, and restores the recipe. Running nodes stay.
func (e env) testWayBack(donor, stays machine.Status, version string, flags []string) {
	e.Helper()
	e.captureByCopy(donor, append(flags, "--version", version+"02")...)
	newest := e.growFrom(version + "02")
	e.Start("rollback", e.Group, "--reason", "for the test").ExpectExit(0)
	e.growFrom(version)
	e.Start("restore", e.Group, "--yes").ExpectExit(0)
	e.growFrom("")
	for _, m := range []machine.Status{donor, newest, stays} {
		if now := e.Machine(m.Node); now.BootID != m.BootID {
			e.Errorf("node %s was touched by the way back", m.Node)
		}
	}
	e.AssertNothingLeft()
}

// growFrom adds a node, which must have this version; empty means the platform's image.
func (e env) growFrom(version string) machine.Status {
	e.Helper()
	m := e.Grow()
	if built := e.VersionOf(m.Image); built != version {
		e.Errorf("node %s was built from version %q, want %q", m.Node, built, version)
	}
	return m
}

// assertCopy asserts that a copy has the version, serves, joined with its own identity, and shares no identity with
// another node.
func (e env) assertCopy(copied machine.Status, version string, others map[string]map[string]string) {
	e.Helper()
	if built := e.VersionOf(copied.Image); built != version {
		e.Errorf("node %s was built from version %q, want %s", copied.Node, built, version)
	}
	e.AssertServes(copied.Node)
	own := e.identityOf(copied)
	for node, identity := range others {
		for file, digest := range own {
			if digest == identity[file] {
				e.Errorf("node %s has /%s of %s", copied.Node, file, node)
			}
		}
	}
	content, err := os.ReadFile(filepath.Join(copied.Disk, "var/lib/kubelet/pki/kubelet-client-current.pem"))
	e.Must(err)
	block, _ := pem.Decode(content)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil || certificate.Subject.CommonName != "system:node:"+copied.Node {
		e.Errorf("node %s joined as %+v: %v", copied.Node, certificate, err)
	}
	if order, err := kubeadm.Find(string(e.specOf(copied).CustomData)); err != nil || order.Token == "" {
		e.Errorf("node %s has no token to join with: %v", copied.Node, err)
	}
	if _, err := e.clientOf(copied).CoreV1().Nodes().Get(e.Context(), copied.Node, metav1.GetOptions{}); err != nil {
		e.Errorf("node %s cannot read itself: %v", copied.Node, err)
	}
	if all := sandbox.Fleet().Collisions(); len(all) > 0 {
		e.Error(all[0].String())
	}
}
