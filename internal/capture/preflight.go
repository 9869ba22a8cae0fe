package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
)

// begun tells that what speaks against the capture is not asked any more: it has begun, or ends.
func (w *observed) begun() bool {
	f := &w.facts
	return w.held() || f.MustBoot() || f.Failed || f.Deleting || w.looking()
}

// lookPreflight has everybody asked who may have a reason against a capture that has not begun. What is known to speak
// against it refuses it, whatever else can't be looked at.
func (e *Engine) lookPreflight(ctx context.Context, w *observed) error {
	if w.begun() && w.pool != "" {
		return nil
	}
	w.admission = inquiryOf(e).gather(ctx, w)
	verdict := w.admission.Judge()
	w.refusals, w.unread, w.crowded = verdict.Refusals, verdict.Trouble(), w.admission.Crowded()
	w.facts.Queued, _ = w.admission.Queued.Get()
	w.facts.Refused = len(w.refusals) > 0
	return verdict.Err()
}

// Case gathers what speaks for or against capturing the Prototype, which need not exist. An error means that too little
// could be looked at for one: the Node, or the pools of nodes. What the caller has seen under one look (cloud.WithReadCache) is
// not asked again.
func (e *Engine) Case(ctx context.Context, p *v1alpha1.Prototype) (*admission.Case, error) {
	w, err := e.look(ctx, p, v1alpha1.Record{}, nil)
	if w == nil {
		return nil, err
	}
	return w.admission, nil
}
