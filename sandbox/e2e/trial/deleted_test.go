package trial

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestPrototypeIsDeletedMeanwhile: nothing is left of it, and the version has no verdict.
func TestPrototypeIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("apart", func(t *testing.T) {
		g := newGround(t, "gone", apart)
		capture := g.capture(ample)
		g.deleted(g.reaches("the trial has a node", triesOn), capture)
	})
	t.Run("in the pool", func(t *testing.T) {
		g := newGround(t, "ingone", inPool)
		closing := g.fault(fault.Fault{Skip: grows + 1, Drop: true})
		capture := g.capture(ample)
		g.eventually("the recipe names the version", func() (bool, string) { return g.opened(), capture.said.String() })
		p := g.prototype()
		g.must(g.deletes(p))
		closing.mend()
		g.deleted(p, capture)
	})
}

func (g *ground) deletes(p *v1alpha1.Prototype) error {
	g.Helper()
	return sandbox.Kube().CoreV1().RESTClient().Delete().AbsPath(prototypesPath, p.Name).Do(g.Context()).Error()
}

func (g *ground) deleted(p *v1alpha1.Prototype, capture *child) {
	g.Helper()
	if err := g.deletes(p); !apierrors.IsNotFound(err) {
		g.must(err)
	}
	capture.ends(g.T, exitFailed, "prototype "+p.Name+" was deleted by somebody")
	if p := g.prototype(); p != nil {
		g.Errorf("Prototype %s is there still, with the finalizers %v", p.Name, p.Finalizers)
	}
	g.tagged("")
	g.recipeUntouched()
	g.nothingLeft(0)
}
