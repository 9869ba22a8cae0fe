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
	capture.ends(t, 4, "did not generalize node "+g.nodes[0], "it cannot start", "broken.invalid/kamino:1", "was given back")
	// Nobody knows how far a pod got, so the donor goes through a boot all the same.
	g.givenBack(before, g.nodes[0], 1)
	g.failed("GeneralizeFailed")
	if asked := count(g.writes(), "snapshot put"); asked > 0 {
		t.Error("a disk that was not generalized was copied")
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
// power. It goes before its pod begins: afterwards the pod could be faster.
func TestDonorThatLosesItsPower(t *testing.T) {
	g := newGround(t, "name=crash,nodes=2")
	before, donor := g.look(), g.nodes[0]
	g.apiGate().before(http.MethodPost, "/namespaces/"+g.namespace+"/pods$", func() {
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
