package trial

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// ample is a timeout that nothing here comes near: half of it is what a check gets.
const ample = 6 * time.Minute

func TestGoodVersionPassesApart(t *testing.T) {
	g := newGround(t, "good", apart)
	g.capture(ample).ends(t, 0)
	g.hasPassed(0)
	if n := g.writes(); n != 1 {
		t.Errorf("the pool was written %d times, want once: for the promotion", n)
	}
}

// grows is how often the pool of a donor that does not return is written ahead of the trial: the growth.
const grows = 1

// TestGoodVersionPassesInThePool: what grows while the recipe names the version is built from it, cordoned, and goes; what grows
// while the trial goes on is built as before, serves, and stays.
func TestGoodVersionPassesInThePool(t *testing.T) {
	g := newGround(t, "ingood", inPool)
	closing := g.fault(fault.Fault{Skip: grows + 1, Count: 1, Delay: 10 * timeScale})
	capture := g.capture(ample)
	g.eventually("the recipe is about to be given back", func() (bool, string) { return closing.spent(), capture.said.String() })
	if !g.opened() {
		t.Fatalf("the recipe names %s, and should name the version while the instance is made", g.cloudPool().Image)
	}
	g.order(1)
	g.eventually("the recipe is given back", func() (bool, string) { return !g.opened(), capture.said.String() })
	g.recipeUntouched()
	g.order(1)
	g.eventually("both nodes of the version are cordoned", func() (bool, string) { return g.cordoned() == 2, capture.said.String() })
	if built := g.built(); len(built) != 2 {
		t.Errorf("%d machines were built from the version, want the trial's and the one that was ordered meanwhile", len(built))
	}
	capture.ends(t, 0)
	g.hasPassed(1)
}

// cordoned are the nodes of the version that are.
func (g *ground) cordoned() int {
	g.Helper()
	n := 0
	for _, m := range g.built() {
		node, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), m.Node, metav1.GetOptions{})
		if m.Node != "" && err == nil && node.Spec.Unschedulable {
			n++
		}
	}
	return n
}

// ordered is a fault in the writes of the ground's pool.
type ordered struct {
	*ground
	name string
}

func (g *ground) fault(f fault.Fault) ordered {
	g.Helper()
	f.Name, f.Resource, f.Operation, f.Path = "of "+g.pool, "pool", "patch", "/"+g.set+"$"
	sandbox.Fault(g.T, f)
	return ordered{g, f.Name}
}

// spent tells that it has struck as often as it should.
func (o ordered) spent() bool {
	for _, f := range sandbox.Cloud().Faults() {
		if f.Name == o.name {
			return false
		}
	}
	return true
}

// mend ends it.
func (o ordered) mend() {
	o.Helper()
	o.must(sandbox.Cloud().ClearFaults(o.name))
}
