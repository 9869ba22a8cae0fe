package trial

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestKilledWhileANodeIsTried: the next command goes on with the node that is there.
func TestKilledWhileANodeIsTried(t *testing.T) {
	g := newGround(t, "killed", apart)
	first := g.capture(ample)
	tried := g.reaches("the trial has a node", triesOn).Status.Trial
	g.dies(first)
	g.eventually("one machine is built from the version", func() (bool, string) { b := g.built(); return len(b) == 1, fmt.Sprintf("%+v", b) })
	second := g.capture(ample)
	second.ends(t, 0)
	if now := g.prototype().Status.Trial; now.Attempt != 1 || now.Instance != tried.Instance {
		t.Errorf("attempt %d was of %s, and the first of %s: a second node was tried", now.Attempt, now.Instance, tried.Instance)
	}
	g.hasPassed(0)
}

// TestKilledWhileTheRecipeIsOpen: the next command gives the recipe back before anything else, and builds no second node. What grew
// meanwhile is built from the version, is cordoned, and goes; what grows afterwards is built as before, serves, and stays.
func TestKilledWhileTheRecipeIsOpen(t *testing.T) {
	g := newGround(t, "opened", inPool)
	closing := g.fault(fault.Fault{Skip: grows + 1, Drop: true})
	first := g.capture(ample)
	g.eventually("the recipe names the version", func() (bool, string) { return g.opened(), first.said.String() })
	g.dies(first)
	closing.mend()
	if !g.opened() {
		t.Fatal("the recipe was given back by nobody")
	}
	g.order(1)
	g.eventually("both machines of the version join", func() (bool, string) { return len(g.joined()) == 2, fmt.Sprintf("%+v", g.built()) })
	second := g.capture(ample)
	g.eventually("the recipe is given back", func() (bool, string) { return !g.opened(), second.said.String() })
	g.recipeUntouched()
	g.order(1)
	g.eventually("both nodes of the version are cordoned", func() (bool, string) { return g.cordoned() == 2, second.said.String() })
	if built := g.built(); len(built) != 2 {
		t.Errorf("%d machines were built from the version, want the trial's and the one that was ordered meanwhile", len(built))
	}
	second.ends(t, 0)
	g.hasPassed(1)
}

// TestPromotedByAPerson: behind the trial the capture waits for one, who is told what it found.
func TestPromotedByAPerson(t *testing.T) {
	g := newGround(t, "manual", apart)
	capture := g.capture(ample, "--promotion", "Manual")
	p := g.reaches("a person is waited for", func(p *v1alpha1.Prototype) bool { return p.Status.Phase == v1alpha1.PhaseAwaitingPromotion })
	g.tagged(trial.Passed)
	g.recipeUntouched()
	g.nothingLeft(0)
	dry := g.run("promote", g.set, p.Spec.Version, "--dry-run")
	if said := dry.Stdout + dry.Stderr; dry.Code != 0 || !strings.Contains(said, p.Spec.Version) || !strings.Contains(said, "assed") {
		t.Errorf("the dry run ended with %d, and should tell of the trial:\n%s", dry.Code, said)
	}
	g.recipeUntouched()
	if done := g.run("promote", g.set, p.Spec.Version); done.Code != 0 {
		t.Errorf("the promotion ended with %d:\n%s%s", done.Code, done.Stdout, done.Stderr)
	}
	capture.ends(t, 0)
	g.hasPassed(0)
}
