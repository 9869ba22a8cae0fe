package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/node"
)

// Case returns the facts for the admission of the Prototype, which need not exist. The error means that the Node or the
// pools of nodes are unreadable. Reads under the caller's cloud.WithReadCache are reused.
func (e *Engine) Case(ctx context.Context, p *v1alpha1.Prototype) (*admission.Case, error) {
	r := e.rooms()
	w, err := r.observeCase(ctx, p)
	if w == nil {
		return nil, err
	}
	r.preflight.askEvictions(ctx, w)
	return w.preflight.admission, nil
}

// askEvictions asks the API server whether budgets would block the evictions, as a dry run, and judges the case again.
func (q preflight) askEvictions(ctx context.Context, w *pass) {
	if w.preflight.admission == nil || w.preflight.admission.Again || w.p.Spec.AddsDonor() || len(w.donor.remainingPods.Pods) == 0 {
		return
	}
	found, err := w.preflight.admission.Pods.Get()
	if err != nil {
		return
	}
	for _, b := range node.HeldBack(ctx, q.kube, w.donor.remainingPods) {
		found.Blocked = append(found.Blocked, b.String())
	}
	w.preflight.admission.Pods = admission.Found(found)
	w.preflight.refusals = w.preflight.admission.Judge().Refusals
}
