package trouble

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func TestInterruptedAndResumed(t *testing.T) {
	g := newGround(t, "name=sigint,nodes=2")
	before, gate := g.look(), g.cloudGate()
	var first *child
	started := make(chan struct{})
	gate.after(http.MethodPut, "/snapshots/", func() {
		<-started
		first.interrupt()
	})
	first = g.capture(g.nodes[0])
	close(started)
	first.ends(t, 130, "interrupted. Nothing is lost: Prototype ", "kamino capture "+g.nodes[0], "kamino cancel ",
		"Node "+g.nodes[0]+" is out of service until somebody does one of the two")
	if lease, err := sandbox.Kube().CoordinationV1().Leases(g.namespace).Get(t.Context(), v1alpha1.LeaseName, metav1.GetOptions{}); err != nil || *lease.Spec.HolderIdentity != "" {
		t.Errorf("the Lease was not given back: %+v, %v", lease, err)
	}
	second := g.capture(g.nodes[0])
	second.ends(t, 0, "Node "+g.nodes[0]+" is being captured already: following Prototype ")
	g.captured(before, g.nodes[0])
}

// moments of a capture at which its command is killed, in their order: when a request arrives, or when it
// has had its effect and nobody was told.
var moments = []struct {
	what, method, path string
	api, after         bool
}{
	{"the Prototype is written", http.MethodPost, "/prototypes$", true, true},
	{"the look is about to be made", http.MethodPost, "/pods$", true, false},
	{"the look is made", http.MethodPost, "/pods$", true, true},
	{"the donor is about to be reserved", http.MethodPatch, "/nodes/", true, false},
	{"the donor is reserved", http.MethodPatch, "/nodes/", true, true},
	{"the reservation is recorded", http.MethodPatch, "/prototypes/[^/]+$", true, true},
	{"the look is over", http.MethodDelete, "/pods/", true, true},
	{"the donor is protected", http.MethodPut, "/virtualMachines/[^/]+$", false, true},
	{"the donor is cordoned", http.MethodPatch, "/nodes/", true, true},
	{"the pod is about to run", http.MethodPost, "/pods$", true, false},
	{"the pod runs", http.MethodPost, "/pods$", true, true},
	{"the snapshot is about to be made", http.MethodPut, "/snapshots/", false, false},
	{"the snapshot is made", http.MethodPut, "/snapshots/", false, true},
	{"the pod is deleted", http.MethodDelete, "/pods/", true, true},
	{"the donor is started", http.MethodPost, "/start$", false, true},
	{"the donor is released", http.MethodPatch, "/nodes/", true, true},
	{"the version is about to be made", http.MethodPut, "/versions/", false, false},
	{"the version is made", http.MethodPut, "/versions/", false, true},
	{"the snapshot is deleted", http.MethodDelete, "/snapshots/", false, true},
	{"the recipe is saved", http.MethodPost, "/secrets$", true, true},
	{"the recipe is about to be changed", http.MethodPatch, "/virtualMachineScaleSets/[^/]+$", false, false},
	{"the recipe is changed", http.MethodPatch, "/virtualMachineScaleSets/[^/]+$", false, true},
}

// TestKilledAtEveryStep carries one capture out with twenty commands, each but the last killed.
func TestKilledAtEveryStep(t *testing.T) {
	g := newGround(t, "name=sigkill,nodes=2")
	before := g.look()
	api, resources := g.apiGate(), g.cloudGate()
	for _, m := range moments {
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
		command = g.capture(g.nodes[0])
		close(started)
		command.ends(t, -1)
		if t.Failed() {
			t.Fatalf("when %s", m.what)
		}
		g.freeLease()
	}
	g.capture(g.nodes[0]).ends(t, 0)
	g.captured(before, g.nodes[0])
}

// TestKilledAndTheLeaseRunsOut waits for the Lease of a command that is dead as a user would.
func TestKilledAndTheLeaseRunsOut(t *testing.T) {
	g := newGround(t, "name=lease,nodes=2")
	before, gate := g.look(), g.cloudGate()
	publishing := g.hold(gate, http.MethodPut, "/versions/")
	first := g.capture(g.nodes[0])
	publishing.await(g)
	first.kill()
	publishing.letGo()
	second := g.capture(g.nodes[0])
	second.ends(t, 0, "drives captures now; this command goes on as soon as that one ends", "this command does the work")
	g.captured(before, g.nodes[0])
}

func TestPrototypeIsDeletedWhileTheDonorIsAway(t *testing.T) {
	g := newGround(t, "name=deleted,nodes=2")
	before := g.look()
	g.deletes(http.MethodPut, "/snapshots/")
	g.givenBack(before, g.nodes[0], 1)
}

// TestPrototypeIsDeletedWhileTheImageIsMade: the cloud lets nobody delete a version that it still makes. It
// is waited for. A version that is found complete then stays, as every complete one does; none stays half-made.
func TestPrototypeIsDeletedWhileTheImageIsMade(t *testing.T) {
	g := newGround(t, "name=unmade,nodes=2")
	before := g.look()
	version := g.deletes(http.MethodPut, "/versions/").Spec.Version
	if now := g.versions(); len(now) > 0 {
		before.Versions = []string{version + " Succeeded"}
	}
	g.givenBack(before, g.nodes[0], 1)
}

// deletes a Prototype when its command makes a request, and demands that the command says so and the
// Prototype goes.
func (g *ground) deletes(method, path string) *v1alpha1.Prototype {
	g.Helper()
	request := g.hold(g.cloudGate(), method, path)
	capture := g.capture(g.nodes[0])
	request.await(g)
	p := g.prototype()
	g.must(g.objects().Delete(g.Context(), p.Name, metav1.DeleteOptions{}))
	request.letGo()
	capture.ends(g.T, 4, "prototype "+p.Name+" was deleted by somebody", "the node is Ready, and no image was promoted")
	g.gone(p.Name)
	return p
}

// gone demands that a Prototype is.
func (g *ground) gone(name string) {
	g.Helper()
	if _, err := g.objects().Get(g.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		g.Errorf("prototype %s is still there: %v", name, err)
	}
}

func TestCancel(t *testing.T) {
	g := newGround(t, "name=cancel,nodes=2")
	before, gate := g.look(), g.cloudGate()
	request := g.hold(gate, http.MethodPut, "/snapshots/")
	capture := g.capture(g.nodes[0])
	request.await(g)
	capture.interrupt()
	request.letGo()
	capture.ends(t, 130)
	name := g.prototype().Name
	cancel := g.start("cancel", name)
	cancel.ends(t, 0)
	if want := "Prototype " + name + " is gone"; !cancel.told(want) {
		t.Errorf("it does not say %q: %s", want, &cancel.stdout)
	}
	g.givenBack(before, g.nodes[0], 1)
	g.gone(name)
}

// published interrupts a capture while its image is being made, and tells its Prototype.
func (g *ground) published() *v1alpha1.Prototype {
	g.Helper()
	capture := g.capture(g.nodes[0], today)
	g.reaches("its image is being made", func(p *v1alpha1.Prototype) bool {
		return p.Status.Phase == v1alpha1.PhasePublishing && p.Status.Image != nil
	})
	capture.interrupt()
	capture.ends(g.T, 130)
	return g.prototype()
}

// TestCancelOfWhatIsComplete: nobody drove the capture when its version was complete. It stays, which is said; it can be
// retired or promoted, and the day's second try has a name.
func TestCancelOfWhatIsComplete(t *testing.T) {
	g := newGround(t, "name=offwhole,nodes=2")
	p := g.published()
	complete := []string{p.Spec.Version + " Succeeded"}
	eventually(t, "the version is complete", func() (bool, string) {
		return slices.Equal(g.versions(), complete), fmt.Sprint(g.versions())
	})
	cancel := g.start("cancel", p.Name)
	cancel.ends(t, 0)
	set := g.pool.ScaleSet()
	if want := fmt.Sprintf("its version %s stays, which was complete before: `kamino promote %s %s`", p.Spec.Version, set, p.Spec.Version); !cancel.told(want) {
		t.Errorf("it does not say %q: %s", want, &cancel.stdout)
	}
	g.gone(p.Name)
	g.start("promote", set, p.Spec.Version, "--dry-run").ends(t, 0)
	rollback := g.start("rollback", set)
	rollback.ends(t, 3, "RecipeNotOurs", "kamino promote "+set+" "+p.Spec.Version)
	second := g.capture(g.nodes[0], "--dry-run")
	second.ends(t, 0, "this one makes "+p.Spec.Version+"02")
	g.start("retire", set, p.Spec.Version).ends(t, 0)
	eventually(t, "the version is gone", func() (bool, string) { return len(g.versions()) == 0, fmt.Sprint(g.versions()) })
}
