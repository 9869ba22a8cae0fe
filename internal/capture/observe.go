package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// observe looks at the capture, and judges its admission if it has not begun.
func (r rooms) observe(ctx context.Context, w *pass) error {
	if err := r.look(ctx, w); err != nil {
		return err
	}
	return r.lookPreflight(ctx, w)
}

// look reads the objects of the capture, in an order in which each read knows what the reads before it found. The record
// precedes each effect, so what the record excludes is not read.
func (r rooms) look(ctx context.Context, w *pass) error {
	for _, look := range []effect{
		r.donors.lookNode, r.donors.lookPool, r.donors.lookInstance, r.orders.readProof,
		r.images.lookArtifacts, r.copying.look, r.pods.lookPod, r.orders.lookReport, r.copying.lookMoment,
		r.trialReader.lookTrial, r.trialReader.lookGate, r.promotion.lookRecipe, r.trialReader.judgeAttempt,
		r.pods.lookLeftPod, r.orders.lookLeftOrder, r.donors.lookKuredAgain, r.trialReader.findLostTrial,
	} {
		if err := look(ctx, w); err != nil {
			return err
		}
		if w.pool == "" && w.noPoolReason != "" {
			break
		}
	}
	return nil
}

// observeAsNew observes a capture without a record. With an error, the result is not nil if only the admission is incomplete.
func (r rooms) observeAsNew(ctx context.Context, p *v1alpha1.Prototype) (*pass, error) {
	w := fromPrototype(p, v1alpha1.Record{})
	if err := r.look(ctx, w); err != nil {
		return nil, err
	}
	return w, r.lookPreflight(ctx, w)
}

// lookPreflight checks the admission of a capture that has not begun. A known obstacle refuses the capture, even if
// other facts are unreadable.
func (r rooms) lookPreflight(ctx context.Context, w *pass) error {
	if w.hasBegun() && w.pool != "" {
		return nil
	}
	c := r.preflight.gather(ctx, w)
	verdict := c.Judge()
	w.preflight.admission, w.preflight.refusals = c, verdict.Refusals
	w.preflight.admissionErr, w.preflight.imageLimitWarning = verdict.Trouble(), c.ImageLimitWarning()
	w.facts.Queued, _ = c.Queued.Get()
	w.facts.Refused = len(verdict.Refusals) > 0
	return verdict.Err()
}
