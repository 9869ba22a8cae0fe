package kubeadm

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
	"github.com/kamino-dev/kamino/sandbox/untried"
)

// own is what of a node's disk is one node's, by path: identity and credential.
var own = []string{
	"etc/machine-id", "etc/hostname", "etc/ssh/ssh_host_ed25519_key", "var/lib/kubelet/pki/kubelet-client-current.pem",
	"var/lib/kubelet/pki/kubelet.key", "var/lib/cloud/data/instance-id",
}

// ownOf a machine, as digests.
func ownOf(t *testing.T, m machine.Status) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range own {
		content, err := os.ReadFile(filepath.Join(m.Disk, file))
		if err != nil || len(content) == 0 {
			t.Fatalf("/%s of %s: %d bytes, %v", file, m.Node, len(content), err)
		}
		out[file] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return out
}

// specOf is what the cloud built a machine by.
func specOf(t *testing.T, m machine.Status) fleet.Spec {
	t.Helper()
	for _, spec := range sandbox.Cloud().Specs() {
		if strings.EqualFold(spec.ID, m.ID) {
			return spec
		}
	}
	t.Fatalf("the cloud has no instance %s", m.ID)
	return fleet.Spec{}
}

// sizeOf a pool, as its scale set is meant to have.
func sizeOf(t *testing.T, pool string) int64 {
	t.Helper()
	all, err := sandbox.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == pool {
			return p.Capacity
		}
	}
	t.Fatalf("there is no pool %s", pool)
	return 0
}

// prototypeOf is the only one of a donor.
func prototypeOf(t *testing.T, donor string) v1alpha1.Prototype {
	t.Helper()
	client, err := dynamic.NewForConfig(sandbox.Config())
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Resource(v1alpha1.GroupVersion.WithResource("prototypes")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		p := v1alpha1.Prototype{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &p); err != nil {
			t.Fatal(err)
		}
		if p.Spec.Donor.NodeName == donor {
			return p
		}
	}
	t.Fatalf("node %s has no Prototype", donor)
	return v1alpha1.Prototype{}
}

// grow a pool by one, and return the new machine when its node is Ready.
func grow(t *testing.T, pool string) machine.Status {
	t.Helper()
	joins, err := sandbox.Scale(t.Context(), pool, control.Scale{Nodes: sizeOf(t, pool) + 1, Wait: true}, func(control.Event) {})
	if err != nil || len(joins) != 1 {
		t.Fatalf("pool %s grew by %d nodes: %v", pool, len(joins), err)
	}
	for _, m := range sandbox.MachinesOf(t, pool) {
		if m.Node == joins[0].Node {
			return m
		}
	}
	t.Fatalf("node %s has no machine", joins[0].Node)
	return machine.Status{}
}

// TestCapture is one of a node that joined by itself, from the order to the second copy, where nobody but Kamino removes the
// Node of an instance that is gone.
func TestCapture(t *testing.T) {
	sandbox.Install(t)
	before := sandbox.Pool(t, "name=captured,nodes=2,profile=bootstrap")
	donor, neighbour := before[0], before[1]
	asDonor, built, images := ownOf(t, donor), specOf(t, donor), donor.Images
	if err := sandbox.Patch(t.Context(), donor.Node, control.Patch{Reboot: true}, func(control.Event) {}); err != nil {
		t.Fatal(err)
	}
	packages := sandbox.MachinesOf(t, "captured")[0].Packages

	said := sandbox.Must(t, "kamino", captureOf(donor.Node)...)
	if want := "builds its next nodes from version "; !strings.Contains(said, want) {
		t.Errorf("it does not say %q: %s", want, said)
	}
	if size := sizeOf(t, "captured"); size != 2 {
		t.Errorf("the pool is meant to have %d nodes, want 2", size)
	}
	testGone(t, donor)
	p := prototypeOf(t, donor.Node)
	if p.Status.Phase != v1alpha1.PhaseSucceeded || p.Status.Image == nil || p.Spec.Settings.Generalize.Profile != v1alpha1.ProfileBootstrap {
		t.Fatalf("the Prototype is %s, of profile %q, with the image %+v", p.Status.Phase, p.Spec.Settings.Generalize.Profile, p.Status.Image)
	}
	machines := sandbox.MachinesOf(t, "captured")
	if len(machines) != 2 || !slices.ContainsFunc(machines, func(m machine.Status) bool {
		return m.Node == neighbour.Node && m.Boots == neighbour.Boots && m.BootID == neighbour.BootID
	}) {
		t.Errorf("the pool's machines are %+v, want %s as it was and a new one", machines, neighbour.Node)
	}

	asked := len(requests(t, "captured"))
	first, second := grow(t, "captured"), grow(t, "captured")
	if got := len(requests(t, "captured")); got != asked+2 {
		t.Errorf("two copies asked for %d certificates", got-asked)
	}
	others := map[string]map[string]string{"the donor": asDonor, neighbour.Node: ownOf(t, neighbour), first.Node: ownOf(t, first)}
	testCopy(t, second, p, others)
	delete(others, first.Node)
	testCopy(t, first, p, others)
	for _, clone := range []machine.Status{first, second} {
		if spec := specOf(t, clone); string(spec.CustomData) != string(built.CustomData) || len(spec.Extensions) != len(built.Extensions) {
			t.Errorf("the recipe of node %s is not the donor's: %d extensions, customData of %d bytes", clone.Node, len(spec.Extensions), len(spec.CustomData))
		}
		if !maps.Equal(clone.Packages, packages) || clone.Boots != 1 {
			t.Errorf("node %s has other packages than its donor, or was booted %d times", clone.Node, clone.Boots)
		}
		for _, image := range images {
			if !slices.Contains(clone.Images, image) {
				t.Errorf("node %s came without the image %s", clone.Node, image)
			}
		}
	}
	if seen := sandbox.Fleet().Collisions(); len(seen) > 0 {
		t.Error(seen[0].String())
	}
	testSight(t, donor)
	testWayBack(t, donor, first, second)
}

// captureOf is how a person asks for one: how the node joins is found.
func captureOf(node string) []string { return untried.Capture(node) }

// testGone demands that nothing is left of a donor.
func testGone(t *testing.T, donor machine.Status) {
	t.Helper()
	if _, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), donor.Node, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node of the donor is still there: %v", err)
	}
	instances, err := sandbox.Instances(t.Context(), path.Base(donor.Pool))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range instances {
		if strings.EqualFold(i, donor.ID) {
			t.Error("the instance of the donor is still there")
		}
	}
	if _, err := os.Stat(donor.Disk); !os.IsNotExist(err) {
		t.Errorf("the disk of the donor is still there: %v", err)
	}
	if left, err := sandbox.Snapshots(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("snapshots are left: %v, %v", left, err)
	}
	pods, err := sandbox.Kube().CoreV1().Pods(v1alpha1.DefaultNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are left: %v", len(pods.Items), err)
	}
}

// builtFrom is the version that a machine was built from; empty if it was none.
func builtFrom(t *testing.T, m machine.Status) string {
	t.Helper()
	version, err := sandbox.VersionOf(t.Context(), path.Base(m.Pool), m.Image)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// testCopy holds a copy to what it must be: built from the version, Ready, itself to the API server, and like nobody else.
func testCopy(t *testing.T, clone machine.Status, p v1alpha1.Prototype, others map[string]map[string]string) {
	t.Helper()
	if builtFrom(t, clone) != p.Spec.Version {
		t.Errorf("node %s was built from %s", clone.Node, clone.Image)
	}
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), clone.Node, metav1.GetOptions{})
	if err != nil || !nodestate.Ready(node) {
		t.Errorf("node %s is not Ready: %v", clone.Node, err)
	}
	mine := ownOf(t, clone)
	for who, theirs := range others {
		for file, digest := range mine {
			if digest == theirs[file] {
				t.Errorf("node %s has /%s of %s", clone.Node, file, who)
			}
		}
	}
	content, err := os.ReadFile(filepath.Join(clone.Disk, "var/lib/kubelet/pki/kubelet-client-current.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil || certificate.Subject.CommonName != "system:node:"+clone.Node {
		t.Errorf("node %s joined as %+v: %v", clone.Node, certificate, err)
	}
	if order, err := kubeadm.Find(string(specOf(t, clone).CustomData)); err != nil || order.Token == "" {
		t.Errorf("nothing has node %s join: %v", clone.Node, err)
	}
	if _, err := as(t, clone).CoreV1().Nodes().Get(t.Context(), clone.Node, metav1.GetOptions{}); err != nil {
		t.Errorf("node %s cannot see itself: %v", clone.Node, err)
	}
}

// testSight is what people see of such a pool.
func testSight(t *testing.T, donor machine.Status) {
	t.Helper()
	set := path.Base(donor.Pool)
	version := prototypeOf(t, donor.Node).Spec.Version
	if history := sandbox.Must(t, "kamino", "history", set); !strings.Contains(history, version) || !strings.Contains(history, donor.Node) || !strings.Contains(history, "bootstrap/") {
		t.Errorf("the history does not tell of version %s, its donor and its profile:\n%s", version, history)
	}
	if status := sandbox.Must(t, "kamino", "status"); strings.Contains(status, donor.Node) && !strings.Contains(status, "Succeeded") {
		t.Errorf("the status tells of a donor that is gone:\n%s", status)
	}
	doctor := sandbox.Run(t, nil, "kamino", "doctor")
	if doctor.Code != 0 && doctor.Code != 1 || strings.Contains(doctor.Stdout, donor.Node) {
		t.Errorf("the doctor ended with %d and finds of the donor that is gone:\n%s%s", doctor.Code, doctor.Stdout, doctor.Stderr)
	}
}

// testWayBack takes a copy for the next donor, goes back from its version to the one before, and from there to the generic
// image. Nodes that run stay.
func testWayBack(t *testing.T, donor, clone, stays machine.Status) {
	t.Helper()
	set, version := path.Base(donor.Pool), prototypeOf(t, donor.Node).Spec.Version
	sandbox.Must(t, "kamino", append(captureOf(clone.Node), "--version", version+"02")...)
	testGone(t, clone)
	newest := grow(t, "captured")
	if builtFrom(t, newest) != version+"02" {
		t.Errorf("after the second capture, node %s was built from %s", newest.Node, newest.Image)
	}
	sandbox.Must(t, "kamino", "rollback", set, "--reason", "for the test")
	if back := grow(t, "captured"); builtFrom(t, back) != version {
		t.Errorf("after the way back, node %s was built from %s", back.Node, back.Image)
	}
	sandbox.Must(t, "kamino", "restore", set, "--yes")
	if generic := grow(t, "captured"); builtFrom(t, generic) != "" {
		t.Errorf("after the recipe was restored, node %s was built from %s", generic.Node, generic.Image)
	}
	for _, m := range []machine.Status{newest, stays} {
		now := sandbox.MachinesOf(t, "captured")
		if i := slices.IndexFunc(now, func(is machine.Status) bool { return is.Node == m.Node }); i < 0 || now[i].BootID != m.BootID {
			t.Errorf("node %s was touched by the way back", m.Node)
		}
	}
}
