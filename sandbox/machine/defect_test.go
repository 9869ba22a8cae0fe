package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

const (
	good = fleet.DiskID("/subscriptions/s/resourcegroups/rg/providers/microsoft.compute/galleries/g/images/kamino-pool-prototype/versions/2026.11.21")
	bad  = fleet.DiskID("/subscriptions/s/resourcegroups/rg/providers/microsoft.compute/galleries/g/images/kamino-pool-prototype/versions/2026.11.22")
)

// versions publishes two versions of one donor. The second version has the ordered defect.
func (w *fleetEnv) versions(order func()) fleet.Spec {
	w.Helper()
	donor := w.donor()
	if err := w.copyFlushed("snapshot", donor.Disk); err != nil {
		w.Fatal(err)
	}
	w.generalize(w.fleet.DiskTree("snapshot"))
	if err := w.fleet.CopyDisk(w.Context(), good, "snapshot"); err != nil {
		w.Fatal(err)
	}
	order()
	// The order affects neither a snapshot nor a version of another pool.
	for _, dst := range []fleet.DiskID{"/snapshots/one", "/galleries/g/images/kamino-other-prototype/versions/2026.11.22", bad} {
		if err := w.fleet.CopyDisk(w.Context(), dst, "snapshot"); err != nil {
			w.Fatal(err)
		}
		if d, err := disk.DefectOf(w.fleet.DiskTree(dst)); err != nil || d.Kind != "" && dst != bad {
			w.Errorf("disk %s has %+v (%v)", dst, d, err)
		}
	}
	return donor
}

// built starts the n-th machine from a version.
func (w *fleetEnv) built(n int, version fleet.DiskID) fleet.Spec {
	w.Helper()
	s := spec(n)
	s.CustomData, s.Extensions = []byte(emptyCloudConfig), nil
	w.launch(s, version)
	return s
}

func (w *fleetEnv) spoilNext(d disk.Defect) func() {
	return func() {
		w.Helper()
		if err := w.fleet.SpoilNext("Pool", "", d); err != nil {
			w.Fatal(err)
		}
	}
}

func TestDefectNeverJoins(t *testing.T) {
	w := newFleetEnv(t)
	w.versions(w.spoilNext(disk.Defect{Kind: disk.NeverJoins}))
	stuck := w.built(2, bad)
	w.eventually("the boot gets stuck", func() bool { return w.log.has("its kubelet does not start") })
	fine := w.built(3, good)
	w.ready("pool000003", fine.ID)
	if err := w.fleet.Restart(t.Context(), stuck.ID); err != nil {
		t.Fatal(err)
	}
	if node := w.node("pool000002"); node.Name != "" || w.fleet.Power(stuck.ID) != fleet.On {
		t.Errorf("the bad one has a Node, or no power: %s", w.fleet.Power(stuck.ID))
	}
	// The order affected one version only. The defect stays on copies of its disk.
	if err := w.fleet.CopyDisk(t.Context(), bad+"02", "snapshot"); err != nil {
		t.Fatal(err)
	}
	if d, err := disk.DefectOf(w.fleet.DiskTree(bad + "02")); err != nil || d.Kind != "" {
		t.Errorf("the version after it has %+v (%v)", d, err)
	}
}

func TestPendingDefectSurvivesRestart(t *testing.T) {
	w := newFleetEnv(t)
	w.donor()
	for _, d := range []disk.Defect{{Kind: disk.NeverJoins}, {Kind: disk.NoNetwork, Share: 70, Seed: 3}} {
		if err := w.fleet.SpoilNext("pool", "2026.11.22", d); err != nil {
			t.Fatal(err)
		}
	}
	w.fleet.Close()
	w.open(nil)
	for _, dst := range []fleet.DiskID{good, bad} {
		if err := w.copyFlushed(dst, spec(1).Disk); err != nil {
			t.Fatal(err)
		}
	}
	first, err := disk.DefectOf(w.fleet.DiskTree(good))
	second, errs := disk.DefectOf(w.fleet.DiskTree(bad))
	if err != nil || errs != nil || first.Kind != "" || second != (disk.Defect{Kind: disk.NoNetwork, Share: 70, Seed: 3}) {
		t.Errorf("the version that was not named has %+v, the named one %+v (%v, %v)", first, second, err, errs)
	}
	if err := w.fleet.SpoilNext("pool", "", disk.Defect{Kind: disk.NeverJoins}); err != nil {
		t.Fatal(err)
	}
	if err := w.fleet.SpoilNext("pool", "", disk.Defect{Kind: disk.NoDefect}); err != nil {
		t.Fatal(err)
	}
	if err := w.copyFlushed(bad+"02", spec(1).Disk); err != nil {
		t.Fatal(err)
	}
	if d, err := disk.DefectOf(w.fleet.DiskTree(bad + "02")); err != nil || d.Kind != "" {
		t.Errorf("an order that was taken back was carried out: %+v (%v)", d, err)
	}
	if err := w.fleet.SpoilNext("pool", "", disk.Defect{Kind: "haunted"}); err == nil || !strings.Contains(err.Error(), "is unknown") {
		t.Errorf("a defect that there is not: %v", err)
	}
}

func TestDefectSharedIdentity(t *testing.T) {
	w := newFleetEnv(t)
	donor := w.versions(w.spoilNext(disk.Defect{Kind: disk.SharedIdentity}))
	twin := w.ready("pool000002", w.built(2, bad).ID).Status.NodeInfo
	other := w.ready("pool000003", w.built(3, good).ID).Status.NodeInfo
	original := w.node("pool000001").Status.NodeInfo
	if original.MachineID == "" || twin.MachineID != original.MachineID || twin.SystemUUID != original.SystemUUID || original.SystemUUID != donor.VMID {
		t.Errorf("the node of the bad version has %+v, the donor %+v", twin, original)
	}
	if other.MachineID == original.MachineID || other.SystemUUID == original.SystemUUID {
		t.Errorf("the node of the good version has %+v, the donor %+v", other, original)
	}
	w.eventually("the collision is seen", func() bool { return len(w.fleet.Collisions()) > 0 })
}

func TestDefectOnExistingVersion(t *testing.T) {
	w := newFleetEnv(t)
	w.versions(func() {})
	before := w.built(2, bad)
	w.ready("pool000002", before.ID)
	if err := w.fleet.Spoil(bad, "pool", disk.Defect{Kind: disk.NotReadyLater, After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	after := w.built(3, bad)
	w.ready("pool000003", after.ID)
	w.eventually("it is not Ready any more", func() bool { return readyOf(w.node("pool000003")) == corev1.ConditionFalse })
	if got := readyOf(w.node("pool000002")); got != corev1.ConditionTrue {
		t.Errorf("a node that was built before is %s", got)
	}
	if err := w.fleet.Spoil("nowhere", "pool", disk.Defect{Kind: disk.NeverJoins}); err == nil {
		t.Error("a version that is not there was spoiled")
	}
}

// TestDefectJoinsLate: the node becomes Ready after the delay, not before. A loaded machine only joins later.
func TestDefectJoinsLate(t *testing.T) {
	const late = 3 * time.Hour
	w := newFleetEnv(t)
	w.versions(w.spoilNext(disk.Defect{Kind: disk.JoinsLate, After: late}))
	begun := time.Now()
	slow := w.built(2, bad)
	w.eventually("the node registers", func() bool { return w.node("pool000002").Name != "" })
	if took := time.Since(begun); took < late/timeScale {
		t.Errorf("the node registered after %s, want at least %s", took, late/timeScale)
	}
	w.ready("pool000002", slow.ID)
}

// TestDefectOnShareOfMachines: the same machines have the defect at each boot and on each copy of the disk.
func TestDefectOnShareOfMachines(t *testing.T) {
	w := newFleetEnv(t)
	d := disk.Defect{Kind: disk.NotReadyLater, Share: 50, Seed: 4, After: time.Minute}
	w.versions(w.spoilNext(d))
	struck := 0
	for n := 2; n < 6; n++ {
		name := fmt.Sprintf("pool%06d", n)
		w.ready(name, w.built(n, bad).ID)
		if d.Affects(name) {
			struck++
			w.eventually(name+" is not Ready any more", func() bool { return readyOf(w.node(name)) == corev1.ConditionFalse })
		}
	}
	if struck == 0 || struck == 4 {
		t.Fatalf("%d of 4 machines are struck: choose another seed", struck)
	}
	for n := 2; n < 6; n++ {
		name := fmt.Sprintf("pool%06d", n)
		if got := readyOf(w.node(name)); (got != corev1.ConditionTrue) != d.Affects(name) {
			t.Errorf("node %s is %s", name, got)
		}
	}
}

func TestOutageEndsAfterTime(t *testing.T) {
	w := newFleetEnv(t)
	w.donor()
	if err := w.fleet.Outage(kubelet.EveryNode); err != nil {
		t.Fatal(err)
	}
	w.eventually("the node is not Ready", func() bool { return readyOf(w.node("pool000001")) == corev1.ConditionFalse })
	if err := w.fleet.Outage(kubelet.NoOutage); err != nil {
		t.Fatal(err)
	}
	w.eventually("the node is Ready", func() bool { return readyOf(w.node("pool000001")) == corev1.ConditionTrue })
}

func TestVersionReferences(t *testing.T) {
	const azures = "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/galleries/sig_g/images/kamino-k8s-pool1-1-vmss-prototype/versions/2026.03.14"
	for image, meets := range map[string]bool{
		azures: true, "kamino/pool1-nodes-1/2026.03.14": true, "kamino/pool1-nodes-1/2026.03.15": false, "kamino/pool2-nodes-1/2026.03.14": false,
		"snap-0123456789abcdef0": false, "vol-0123456789abcdef0": false, "Canonical:ubuntu:22_04-lts:22.04.1": false, "other/pool1-nodes-1/2026.03.14": false,
	} {
		if got := (pendingDefect{Pool: "pool1", Version: "2026.03.14"}).matches(image); got != meets {
			t.Errorf("%s: %t", image, got)
		}
	}
	if !(pendingDefect{Pool: "pool1"}).matches("kamino/pool1-nodes-1/2026.03.15") {
		t.Error("whichever is next is not meant")
	}
}
