package trouble

import (
	"net/http"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

func TestGeneralizePodCannotStart(t *testing.T) {
	g := newGround(t, "name=badpod,nodes=2")
	before := g.look()
	capture := g.capture(g.nodes[0], "--image", "broken.invalid/kamino:1")
	capture.ends(t, 3, "does not run on node "+g.nodes[0]+", which was left in service", "it cannot start", "broken.invalid/kamino:1", "--image")
	g.givenBack(before, g.nodes[0], 0)
	g.failed("LookFailed")
	if donor := g.prototype().Status.Donor; donor != nil {
		t.Errorf("the donor was taken: %+v", donor)
	}
	if writes := g.writes(); len(writes) > 0 {
		t.Errorf("the cloud was asked to change something: %v", writes)
	}
}

func TestDonorThatDoesNotComeBack(t *testing.T) {
	g := newGround(t, "name=hung,nodes=2")
	before, donor := g.look(), g.nodes[0]
	g.cloudGate().before(http.MethodPut, "/snapshots/", func() {
		if err := sandbox.Hang(t.Context(), donor); err != nil {
			t.Error(err)
		}
	})
	capture := g.capture(donor)
	g.reaches("the donor is awaited", func(p *v1alpha1.Prototype) bool { return p.Status.Phase == v1alpha1.PhaseWaitingReady })
	g.age(donor, time.Hour)
	capture.ends(t, 4, "node "+donor+" was started again and did not become Ready within 15m0s past the deadline",
		"given back as it is", "no image is made of it", "look at its boot log")
	g.failed("DonorNotReady")

	// All that is wrong with the node now is what is wrong with its machine.
	if nodestate.Ready(g.node(donor)) {
		t.Error("the donor is Ready")
	}
	g.must(sandbox.Unhang(t.Context(), donor))
	g.givenBack(before, donor, 1)
	if asked := count(g.writes(), "version put"); asked > 0 {
		t.Error("an image was made of it")
	}
}

// TestDonorThatLosesItsPower: a machine that goes off without a proof is no prototype, whoever took its
// power. It goes with the key of its pod, before that begins: afterwards the pod could be faster.
func TestDonorThatLosesItsPower(t *testing.T) {
	g := newGround(t, "name=crash,nodes=2")
	before, donor := g.look(), g.nodes[0]
	g.apiGate().before(http.MethodPost, "/namespaces/"+g.namespace+"/secrets$", func() {
		if err := sandbox.Crash(t.Context(), donor); err != nil {
			t.Error(err)
		}
	})
	g.capture(donor).ends(t, 4, "node "+donor, "was given back")
	g.givenBack(before, donor, 1)
	if asked := count(g.writes(), "snapshot put"); asked > 0 {
		t.Error("a disk that was not proven was copied")
	}
}
