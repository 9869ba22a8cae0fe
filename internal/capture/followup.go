package capture

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// maxFactAge is the maximum age of facts for a further decision in the same pass, equal to the longest poll interval of
// a held donor.
const maxFactAge = 5 * time.Second

// isAgeless reports whether the next action depends only on the record of this action, whatever the age of the facts.
func isAgeless(done plan.Action) bool {
	return done == plan.BeginTrial || done == plan.PassTrial || done == plan.EndTrial
}

// followUp decides the next action of the pass after a successful action. The pass ends if its facts are old, or if the
// next action needs a new observation. The next action must use the returned context.
func (e *Engine) followUp(ctx context.Context, w *observed, done plan.Decision) (within context.Context, next plan.Decision, found bool) {
	performed := actions[done.Do]
	if len(performed.next) == 0 || w.isOrphan || w.reads != nil || e.now().Sub(w.observedAt) > maxFactAge && !isAgeless(done.Do) {
		return ctx, plan.Decision{}, false
	}
	if cloud.ReadCacheOf(ctx).IsInvalid() {
		ctx = cloud.WithReadCache(ctx)
	}
	if performed.applied == nil || !performed.applied(ctx, e, w) {
		return ctx, plan.Decision{}, false
	}
	next = plan.Next(w.facts)
	if !slices.Contains(performed.next, next.Do) {
		return ctx, plan.Decision{}, false
	}
	if e.onFollowUp != nil {
		e.onFollowUp(ctx, w, next)
	}
	return ctx, next, true
}
