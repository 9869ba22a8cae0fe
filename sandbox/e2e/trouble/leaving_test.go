package trouble

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// Donors that do not return: what they joined with is taken off their disks, so that their instances are removed.

// bootstrap is the profile of such nodes.
const bootstrap = "--profile=bootstrap"

// Requests that only a donor that does not return brings about.
const (
	poolPath     = "/virtualMachineScaleSets/[^/]+$"
	instancePath = "/virtualMachines/[^/]+$"
)

// resize gives the pool another size, as an autoscaler would, or a person.
func (g *ground) resize(nodes int) {
	g.Helper()
	body := map[string]any{"sku": map[string]any{"name": at(g.scaleSet(), "sku", "name"), "capacity": nodes}}
	if status, answer := request(g, http.MethodPatch, g.scaleSetPath(), body); status >= http.StatusBadRequest {
		g.Fatalf("the pool of %d nodes was refused: %d %v", nodes, status, answer)
	}
}

// expire takes the pool's bootstrap token away, as the cluster does when its time is over.
func (g *ground) expire() {
	g.Helper()
	secrets := sandbox.Kube().CoreV1().Secrets(metav1.NamespaceSystem)
	all, err := secrets.List(g.Context(), metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
	g.must(err)
	for _, s := range all.Items {
		if string(s.Data["description"]) == "for the nodes of pool "+g.pool.Name {
			g.must(secrets.Delete(g.Context(), s.Name, metav1.DeleteOptions{}))
			return
		}
	}
	g.Fatal("the pool has no token")
}

// TestAnotherNodeIsThereBeforeTheDonorLeaves is the whole of it: what the pool has at each moment, and what its next node is.
func TestAnotherNodeIsThereBeforeTheDonorLeaves(t *testing.T) {
	g := leavingGround(t, "name=leaves,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance, was, cordoned := g.instanceOf(donor), g.identity(donor), g.watch(donor)
	g.capture(donor, bootstrap).ends(t, 0)
	g.replaced(before, donor, instance)
	if ready := cordoned.get(); ready != 2 {
		t.Errorf("%d nodes beside the donor were Ready when it was taken out of service, want 2", ready)
	}
	if writes := g.writes(); count(writes, "instance delete") != 1 || count(writes, "snapshot put") != 1 {
		t.Errorf("the cloud was asked for %v", writes)
	}
	g.joins(was)
}

// TestTheDonorsPlaceIsFilledAfterwards: a pool at its maximum is one node short for a while, and never larger.
func TestTheDonorsPlaceIsFilledAfterwards(t *testing.T) {
	g := leavingGround(t, "name=short,nodes=3,max=3")
	before, donor := g.look(), g.nodes[0]
	instance, cordoned := g.instanceOf(donor), g.watch(donor)
	largest := 0
	gate := g.cloudGate()
	gate.after(http.MethodPut, "/snapshots/", func() { largest = capacityOf(g.scaleSet()) })
	g.capture(donor, bootstrap, "--grow-first=false").ends(t, 0)
	g.replaced(before, donor, instance)
	if ready := cordoned.get(); ready != 2 || largest != 3 {
		t.Errorf("%d nodes beside the donor when it was taken out of service, in a pool of %d; want 2 of 3", ready, largest)
	}
}

func TestControllerRemovesADonor(t *testing.T) {
	g := ownGround(t, "name=ctlleaves,nodes=2,profile=bootstrap")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	controller := g.controller()
	g.capture(donor, bootstrap).ends(t, 0, "the controller ")
	g.leaves(controller)
	g.replaced(before, donor, instance)
}

// leavingMoments are those at which a command is killed that a donor which returns does not know, in their order, and the
// ones around them at which that makes a difference.
var leavingMoments = []struct {
	what, method, path string
	api, after         bool
}{
	{"the pool is about to grow", http.MethodPatch, poolPath, false, false},
	{"the pool grows", http.MethodPatch, poolPath, false, true},
	{"the donor is protected", http.MethodPut, instancePath, false, true},
	{"the donor is taken", http.MethodPatch, "/nodes/", true, true},
	{"the pod is about to run", http.MethodPost, "/pods$", true, false},
	{"the pod runs", http.MethodPost, "/pods$", true, true},
	{"the snapshot is about to be made", http.MethodPut, "/snapshots/", false, false},
	{"the snapshot is made", http.MethodPut, "/snapshots/", false, true},
	{"the pod is deleted", http.MethodDelete, "/pods/", true, true},
	{"the instance is about to be removed", http.MethodDelete, instancePath, false, false},
	{"the instance is removed", http.MethodDelete, instancePath, false, true},
	{"the version is about to be made", http.MethodPut, "/versions/", false, false},
	{"the recipe is about to be changed", http.MethodPatch, poolPath, false, false},
	{"the recipe is changed", http.MethodPatch, poolPath, false, true},
}

// TestKilledAroundARemoval carries one capture out with many commands, each but the last killed.
func TestKilledAroundARemoval(t *testing.T) {
	g := leavingGround(t, "name=killleave,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	api, resources := g.apiGate(), g.cloudGate()
	for _, m := range leavingMoments {
		gate := resources
		if m.api {
			gate = api
		}
		var command *child
		started := make(chan struct{})
		kill := func() {
			<-started
			command.kill()
		}
		if m.after {
			gate.after(m.method, m.path, kill)
		} else {
			gate.instead(m.method, m.path, kill)
		}
		command = g.capture(donor, bootstrap)
		close(started)
		command.ends(t, -1)
		if t.Failed() {
			t.Fatalf("when %s", m.what)
		}
		g.freeLease()
	}
	g.capture(donor, bootstrap).ends(t, 0)
	g.replaced(before, donor, instance)
}

// TestPrototypeIsDeletedWhileAnotherNodeIsAwaited: the donor was not taken, and is as it was. The node that the pool has
// grown by is somebody's who wants it: the autoscaler's.
func TestPrototypeIsDeletedWhileAnotherNodeIsAwaited(t *testing.T) {
	g := leavingGround(t, "name=delawait,nodes=2")
	before, donor := g.look(), g.nodes[0]
	growing := g.hold(g.cloudGate(), http.MethodPatch, poolPath)
	capture := g.capture(donor, bootstrap)
	growing.await(g)
	p := g.prototype()
	g.must(g.objects().Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	growing.letGo()
	capture.ends(t, 4, "prototype "+p.Name+" was deleted by somebody")
	g.gone(p.Name)
	before.ScaleSet = withCapacity(before.ScaleSet, 3)
	g.larger(before, donor)
}

// larger demands that the pool is as it was but for a node more, which serves.
func (g *ground) larger(before sight, donor string) {
	g.Helper()
	known := before.Instances
	before.Instances = nil
	now := sight{}
	if !soon(func() bool {
		now = g.look()
		missing := false
		for id, vm := range known {
			missing = missing || fmt.Sprint(now.Instances[id]) != fmt.Sprint(vm)
		}
		now.Instances = nil
		return !missing && fmt.Sprint(now) == fmt.Sprint(before)
	}) {
		g.Errorf("the pool is not as it was, donor %s\nbefore %v\nafter  %v", donor, before, now)
	}
	g.settled()
}

// TestPrototypeIsDeletedOnceItsDonorCannotReturn: what was taken off its disk is gone, so the donor goes, and its place is
// another node's.
func TestPrototypeIsDeletedOnceItsDonorCannotReturn(t *testing.T) {
	g := leavingGround(t, "name=delorder,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	snapshot := g.hold(g.cloudGate(), http.MethodPut, "/snapshots/")
	capture := g.capture(donor, bootstrap)
	snapshot.await(g)
	p := g.prototype()
	g.must(g.objects().Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	snapshot.letGo()
	capture.ends(t, 4, "prototype "+p.Name+" was deleted by somebody")
	g.gone(p.Name)
	g.left(before, donor, instance, 2)
}

// TestACaptureFailsOnceItsDonorCannotReturn: no snapshot can be made.
func TestACaptureFailsOnceItsDonorCannotReturn(t *testing.T) {
	g := leavingGround(t, "name=nosnap,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	sandbox.Fault(t, fault.Fault{Resource: "snapshot", Operation: "put", Path: g.pool.ScaleSet(), Long: true, Code: "SnapshotsBlocked", Message: "Nobody makes a snapshot here."})
	g.capture(donor, bootstrap).ends(t, 4, "Nobody makes a snapshot here", "removed")
	g.failed("SnapshotFailed")
	g.left(before, donor, instance, 2)
}

// TestThePoolsNewNodeDoesNotJoin: the token in the recipe has expired. The donor was not touched, and serves.
func TestThePoolsNewNodeDoesNotJoin(t *testing.T) {
	g := leavingGround(t, "name=tokengone,nodes=2")
	before, donor := g.look(), g.nodes[0]
	g.expire()
	g.capture(donor, bootstrap, "--ready-timeout=20s").ends(t, 4,
		"the node that is to take the place of node "+donor+" was not Ready within 20s", "was not taken", "see why new nodes of pool "+g.pool.ScaleSet())
	g.failed("SuccessorNotReady")
	before.ScaleSet = withCapacity(before.ScaleSet, 3)
	g.larger(before, donor)
	if writes := g.writes(); count(writes, "instance delete")+count(writes, "instance put") > 0 {
		t.Errorf("the donor was touched: %v", writes)
	}
	g.serves(donor)
}

// TestAPersonDeletesTheDonor at two moments: before the order to generalize it, and past it.
func TestAPersonDeletesTheDonor(t *testing.T) {
	for name, moment := range map[string]string{"gonebefore": instancePath, "gonepast": "/snapshots/"} {
		t.Run(name, func(t *testing.T) {
			g := leavingGround(t, "name="+name+",nodes=2")
			before, donor := g.look(), g.nodes[0]
			instance := g.instanceOf(donor)
			request := g.hold(g.cloudGate(), http.MethodPut, moment) // its protection, or the copy of its disk
			capture := g.capture(donor, bootstrap)
			request.await(g)
			g.must(sandbox.Remove(t.Context(), donor))
			request.letGo()
			capture.ends(t, 4, "node "+donor)
			g.left(before, donor, instance, 2)
		})
	}
}

// TestAnAutoscalerGrowsThePoolMeanwhile: it makes the pool larger while the donor is away, and what it wants stays.
func TestAnAutoscalerGrowsThePoolMeanwhile(t *testing.T) {
	g := leavingGround(t, "name=asgrows,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	snapshot := g.hold(g.cloudGate(), http.MethodPut, "/snapshots/")
	capture := g.capture(donor, bootstrap)
	snapshot.await(g)
	g.resize(capacityOf(g.scaleSet()) + 1)
	snapshot.letGo()
	capture.ends(t, 0)
	before.ScaleSet = withCapacity(before.ScaleSet, 3)
	g.replaced(before, donor, instance)
}

// TestAnAutoscalerTakesTheNewNode before it is Ready: the pool grows once more, and the donor waits.
func TestAnAutoscalerTakesTheNewNode(t *testing.T) {
	g := leavingGround(t, "name=asshrinks,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance, cordoned := g.instanceOf(donor), g.watch(donor)
	shrunk := make(chan struct{})
	g.cloudGate().after(http.MethodPatch, poolPath, func() {
		g.resize(2)
		close(shrunk)
	})
	g.capture(donor, bootstrap).ends(t, 0)
	<-shrunk
	g.replaced(before, donor, instance)
	if ready := cordoned.get(); ready != 2 {
		t.Errorf("%d nodes beside the donor were Ready when it was taken out of service, want 2", ready)
	}
}

// TestTwoCommandsForOneDonorThatLeaves: they remove one node, not two.
func TestTwoCommandsForOneDonorThatLeaves(t *testing.T) {
	g := leavingGround(t, "name=twoleave,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	g.bothWrite()
	if codes := endings(t, g.capture(donor, today, bootstrap), g.capture(donor, today, bootstrap)); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %v, want twice 0", codes)
	}
	g.replaced(before, donor, instance)
	if n := count(g.writes(), "instance delete"); n != 1 {
		t.Errorf("%d instances were deleted", n)
	}
}

// lock keeps the pool from being deleted, with its instances; the function takes the lock away.
func (g *ground) lock() (unlock func()) {
	g.Helper()
	where := g.scaleSetPath() + "/providers/Microsoft.Authorization/locks/keep"
	if status, answer := request(g, http.MethodPut, where, map[string]any{"properties": map[string]any{"level": "CanNotDelete"}}); status != http.StatusCreated {
		g.Fatalf("the lock was refused: %d %v", status, answer)
	}
	return func() { request(g, http.MethodDelete, where, nil) }
}

// TestALockThatComesTooLate keeps a donor which nobody can use. It is said, and the removal goes on when the lock is gone.
func TestALockThatComesTooLate(t *testing.T) {
	g := leavingGround(t, "name=locked,nodes=2")
	before, donor := g.look(), g.nodes[0]
	instance := g.instanceOf(donor)
	snapshot := g.hold(g.cloudGate(), http.MethodPut, "/snapshots/")
	capture := g.capture(donor, bootstrap)
	snapshot.await(g)
	unlock := g.lock()
	snapshot.letGo()
	eventually(t, "the command tells of the lock", func() (bool, string) { return capture.heard("lock"), capture.stderr.String() })
	if vm := get(g, g.scaleSetPath()+"/virtualMachines/"+instance); vm == nil || !g.node(donor).Spec.Unschedulable {
		t.Errorf("the donor is not kept as it is: %v", vm)
	}
	unlock()
	capture.ends(t, 0)
	g.replaced(before, donor, instance)
}

// TestQuotaForOneMoreNode has the sandbox to itself: the quota is everybody's.
func TestQuotaForOneMoreNode(t *testing.T) {
	g := ownGround(t, "name=onemore,nodes=2,profile=bootstrap")
	used := 0
	for _, usage := range values(g, "/providers/Microsoft.Compute/locations/"+sandbox.Facts().Location+"/usages") {
		if at(usage, "name", "value") == "cores" {
			n, _ := usage["currentValue"].(float64)
			used = int(n)
		}
	}
	g.must(sandbox.Azure().Limit("cores", int64(used)+1))
	t.Cleanup(func() { g.must(sandbox.Azure().Limit("cores", -1)) })
	before := g.look()
	g.capture(g.nodes[0], bootstrap).ends(t, 3, "quota", "--grow-first=false")
	g.untouched(before)
}

// TestLockedPoolIsRefused before anything is done.
func TestLockedPoolIsRefused(t *testing.T) {
	g := leavingGround(t, "name=locks,nodes=2")
	defer g.lock()()
	g.mark = time.Now() // the lock was a change
	g.refusesWith(g.nodes[0], 3, []string{bootstrap}, "lock")
}

// refusesWith is refuses with more flags.
func (g *ground) refusesWith(node string, code int, flags []string, says ...string) {
	g.Helper()
	before := g.look()
	g.capture(node, append(flags, "--dry-run")...).ends(g.T, code, says...)
	g.capture(node, flags...).ends(g.T, code, append(says, "nothing was changed")...)
	g.untouched(before)
}

// TestReturnIsRefused where no donor can.
func TestReturnIsRefused(t *testing.T) {
	g := leavingGround(t, "name=returns,nodes=2")
	before := g.look()
	g.capture(g.nodes[0], bootstrap, "--afterwards=Return").ends(t, 2, "--afterwards Return is not for profile bootstrap")
	g.untouched(before)
}
