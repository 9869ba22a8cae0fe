package kubeadm

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestNoCommandOutlivesAWrite is a capture of which each command dies with a write to the cloud. What comes of it is what comes of any
// other.
func TestNoCommandOutlivesAWrite(t *testing.T) {
	sandbox.Install(t)
	before := sandbox.Pool(t, "name=killed,nodes=2,profile=bootstrap")
	donor, neighbour := before[0], before[1]
	asDonor := ownOf(t, donor)
	said := sandbox.EachDiesWithItsWrite(t, v1alpha1.DefaultNamespace, captureOf(donor.Node)...)
	if want := "builds its next nodes from version "; !strings.Contains(said, want) {
		t.Fatalf("the last command does not say %q:\n%s", want, said)
	}
	if size := sizeOf(t, "killed"); size != 2 {
		t.Errorf("the pool is meant to have %d nodes, want 2", size)
	}
	testGone(t, donor)
	p := prototypeOf(t, donor.Node)
	if p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("the Prototype is %s: %+v", p.Status.Phase, p.Status.Failure)
	}
	if versions, err := sandbox.Versions(t.Context(), "killed"); err != nil || len(versions) != 1 || !versions[0].Complete {
		t.Errorf("the pool has the versions %+v: %v", versions, err)
	}
	machines := sandbox.MachinesOf(t, "killed")
	if len(machines) != 2 {
		t.Errorf("the pool has %d machines, want %s and one in the donor's place", len(machines), neighbour.Node)
	}
	clone := grow(t, "killed")
	testCopy(t, clone, p, map[string]map[string]string{"the donor": asDonor, neighbour.Node: ownOf(t, neighbour)})
	if seen := sandbox.Fleet().Collisions(); len(seen) > 0 {
		t.Error(seen[0].String())
	}
}
