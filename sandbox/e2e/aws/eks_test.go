package aws

import (
	"fmt"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine"
)

// TestEKSDonorServes captures an EKS node, and then a node from its image. The donors serve all the time, and each new node joins with
// its own identity.
func TestEKSDonorServes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "eks", "profile=eks")
	used := map[string]bool{}
	donor := e.Machines[0]
	for round := range 2 {
		before, state := e.Node(donor.Node), e.State()
		version := fmt.Sprintf("%s%02d", time.Now().UTC().Format("2006.01.02"), round+2)
		e.Capture(donor.Node, "--version", version).ExpectExit(0, "stayed in service")
		e.AssertCopied(state, donor.Node)
		if next := e.NextVersion(); next != version {
			t.Errorf("the group builds from version %q, want %s", next, version)
		}
		after := e.Node(donor.Node)
		if after.UID != before.UID || after.Spec.ProviderID != before.Spec.ProviderID || after.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID {
			t.Errorf("the donor is not the node that it was: %+v, %+v", after.Spec, after.Status.NodeInfo)
		}
		donor = e.growWithNewIdentity(used, after.Status.NodeInfo.MachineID, after.Status.NodeInfo.SystemUUID)
	}
	if versions := e.Versions(); len(versions) != 2 {
		t.Errorf("the group has the versions %+v", versions)
	}
}

// growWithNewIdentity adds a node, which must have neither the donor's identity nor an identity from used.
func (e env) growWithNewIdentity(used map[string]bool, donors ...string) machine.Status {
	e.Helper()
	for _, id := range donors {
		used[id] = true
	}
	copied := e.Grow()
	info := e.Node(copied.Node).Status.NodeInfo
	for _, id := range []string{info.MachineID, info.SystemUUID} {
		if used[id] {
			e.Errorf("node %s has the identity %s of another node", copied.Node, id)
		}
		used[id] = true
	}
	return copied
}
