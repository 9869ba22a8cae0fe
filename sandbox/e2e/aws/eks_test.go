package aws

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/untried"
)

// TestEKSDonorReturns: nodes of EKS join by their instances' role at every boot, so that a donor comes back, as the node that it
// was, and its copies come up as themselves. A copy is a donor as good as any.
func TestEKSDonorReturns(t *testing.T) {
	g := newGround(t, "eks", "profile=eks")
	asked := map[string]bool{}
	for round := range 2 {
		donor := g.nodes[0]
		before, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), donor.Node, metav1.GetOptions{})
		g.must(err)
		image := g.look().Image
		g.capture(0, []string{"is back in service"}, "--version", time.Now().UTC().Format("2006.01.02")+fmt.Sprintf("%02d", round+2))
		if now := g.look(); now.Image == image || now.Capacity != int64(2+round) {
			t.Errorf("the group builds from %s, as before, or is meant to have %d nodes, not %d", now.Image, now.Capacity, 2+round)
		}
		after, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), donor.Node, metav1.GetOptions{})
		g.must(err)
		if after.UID != before.UID || after.Spec.ProviderID != before.Spec.ProviderID || after.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID ||
			!nodestate.Ready(after) || after.Spec.Unschedulable {
			t.Errorf("the donor is not the node that it was, or serves no more: %+v, %+v", after.Spec, after.Status.NodeInfo)
		}
		for _, i := range g.asg().Instances {
			if i.LifecycleState != astypes.LifecycleStateInService || *i.ProtectedFromScaleIn {
				t.Errorf("instance %s is %s, protected: %t", *i.InstanceId, i.LifecycleState, *i.ProtectedFromScaleIn)
			}
		}
		g.nothingLeft()
		clone := g.grows()
		node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), clone.Node, metav1.GetOptions{})
		g.must(err)
		for _, id := range []string{node.Status.NodeInfo.MachineID, node.Status.NodeInfo.SystemUUID} {
			if asked[id] || id == after.Status.NodeInfo.MachineID || id == after.Status.NodeInfo.SystemUUID {
				t.Errorf("%s is not %s's alone", id, clone.Node)
			}
			asked[id] = true
		}
		g.nodes = []machine.Status{clone}
	}
	if kept, err := sandbox.Versions(t.Context(), g.pool); err != nil || len(kept) != 2 {
		t.Errorf("the group's versions are %+v: %v", kept, err)
	}
}

// TestEKSNoCommandOutlivesAWrite: the hold, the way off and back and the image, each lost before and after its effect.
func TestEKSNoCommandOutlivesAWrite(t *testing.T) {
	g := newGround(t, "eksdies", "profile=eks")
	said := sandbox.EachDiesWithItsWrite(t, g.namespace, untried.Capture(g.nodes[0].Node, "--max-concurrent", "100", "--namespace", g.namespace)...)
	if want := "builds its next nodes from version "; !strings.Contains(said, want) {
		t.Errorf("the last command does not say %q:\n%s", want, said)
	}
	before := g.before
	g.before = g.look() // the recipe is the version's
	if g.before.Image == before.Image {
		t.Error("the group builds from what it built from before")
	}
	g.whole(2)
	if kept, err := sandbox.Versions(t.Context(), g.pool); err != nil || len(kept) != 1 || !kept[0].Complete {
		t.Errorf("the group's versions are %+v: %v", kept, err)
	}
}

// grows has the group grow by one, and returns the new machine.
func (g *ground) grows() machine.Status {
	g.Helper()
	before := sandbox.MachinesOf(g.T, g.pool)
	_, err := sandbox.Scale(g.Context(), g.pool, control.Scale{Nodes: int64(len(before) + 1), Wait: true}, func(control.Event) {})
	g.must(err)
	for _, m := range sandbox.MachinesOf(g.T, g.pool) {
		if !slices.ContainsFunc(before, func(b machine.Status) bool { return b.ID == m.ID }) {
			return m
		}
	}
	g.Fatalf("pool %s has not grown", g.pool)
	return machine.Status{}
}

// TestNoRoomToStartTheDonor: AWS has no machine for an instance that is to start again. It is asked again, and the donor is back once
// there is one.
func TestNoRoomToStartTheDonor(t *testing.T) {
	g := newGround(t, "noroom", "profile=eks")
	g.when("EnterStandby", func() { // dry runs are told nothing of it
		sandbox.Fault(t, fault.Fault{Operation: "StartInstances", Path: g.nodes[0].ID, Status: http.StatusInternalServerError, Code: "InsufficientInstanceCapacity", Count: 3,
			Message: "We currently do not have sufficient m6i.large capacity in the Availability Zone you requested (eu-central-1a)."})
	})
	g.capture(0, []string{"We currently do not have sufficient m6i.large capacity", "is back in service"})
	for _, f := range sandbox.Cloud().Faults() {
		if strings.Contains(f.Path, g.nodes[0].ID) {
			t.Errorf("nobody asked for the start often enough: %+v", f)
		}
	}
	if p := g.prototype(); p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("the Prototype is %+v", p)
	}
	g.nothingLeft()
}
