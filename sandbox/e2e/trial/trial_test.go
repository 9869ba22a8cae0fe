package trial

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// ample is a timeout that nothing here comes near: half of it is what a check gets.
const ample = 6 * time.Minute

func TestGoodVersionPassesApart(t *testing.T) {
	g := newGround(t, "good", apart)
	g.capture(ample).ends(t, 0)
	g.hasPassed(0)
	if n := g.writes(); n != 1 && sandbox.Azure() != nil {
		t.Errorf("the pool was written %d times, want once: for the promotion", n)
	}
}

// grows is how often the pool of a donor that does not return is written ahead of the trial: the growth.
const grows = 1

func TestGoodVersionPassesInThePool(t *testing.T) {
	g := newGround(t, "ingood", inPool)
	g.capture(ample).ends(t, 0)
	g.hasPassed(0)
	if n := g.writes(); n != grows+4 {
		t.Errorf("the pool was written %d times, want the growth, the trial's begin, its closing, its end, and the promotion", n)
	}
}

// joined are the Nodes of the machines that were built from the version.
func (g *ground) joined() []corev1.Node {
	g.Helper()
	var out []corev1.Node
	for _, m := range g.built() {
		if m.Node == "" {
			continue
		}
		if node, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), m.Node, metav1.GetOptions{}); err == nil {
			out = append(out, *node)
		}
	}
	return out
}

// cordoned is how many of them are.
func (g *ground) cordoned() int {
	g.Helper()
	n := 0
	for _, node := range g.joined() {
		if node.Spec.Unschedulable {
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

// mend ends it.
func (o ordered) mend() {
	o.Helper()
	o.must(sandbox.Cloud().ClearFaults(o.name))
}
