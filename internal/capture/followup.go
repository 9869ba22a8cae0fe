package capture

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// maxFactAge is how old the facts of a pass may be when the pass decides once more.
const maxFactAge = time.Second

// followUps are the actions that may follow an action in the same pass, without a new look. applyEffect knows everything that the first
// action changes. An action has no place here where a new look may find a reason against it: kured has taken a node, or a stranger has started the donor.
var followUps = map[plan.Action][]plan.Action{
	plan.Reserve:        {plan.DeletePod},
	plan.DeletePod:      {plan.DeleteOrder},
	plan.Order:          {plan.Note},
	plan.Note:           {plan.Generalize, plan.Start},
	plan.Generalize:     {plan.Adopt},
	plan.Adopt:          {plan.Wait},
	plan.Believe:        {plan.DeleteOrder},
	plan.Return:         {plan.Note},
	plan.Unprotect:      {plan.Release},
	plan.Release:        {plan.Forget},
	plan.DeleteSnapshot: {plan.SaveRecipe, plan.Promote},
	plan.SaveRecipe:     {plan.Promote},
}

// followUp decides what the pass does next after an action that went through. A pass whose facts are old, or whose next action needs
// a new look, is over. What is done next belongs under the context that it returns.
func (e *Engine) followUp(ctx context.Context, w *world, done plan.Decision) (within context.Context, next plan.Decision, found bool) {
	allowed := followUps[done.Do]
	if len(allowed) == 0 || w.orphan || w.reads != nil || e.now().Sub(w.lookedAt) > maxFactAge {
		return ctx, plan.Decision{}, false
	}
	if cloud.SightOf(ctx).IsWritten() {
		ctx = cloud.OneLook(ctx)
	}
	if !applyEffect(ctx, e, w, done.Do) {
		return ctx, plan.Decision{}, false
	}
	next = plan.Next(w.facts)
	if !slices.Contains(allowed, next.Do) {
		return ctx, plan.Decision{}, false
	}
	if e.onFollowUp != nil {
		e.onFollowUp(ctx, w, next)
	}
	return ctx, next, true
}

// applyEffect makes the facts those that a new look would find after the action. known is false where only a look can tell.
func applyEffect(ctx context.Context, e *Engine, w *world, done plan.Action) (known bool) {
	f := &w.facts
	switch done {
	case plan.Reserve:
		w.reservation = w.record.Reservation
		f.Lock, f.Recorded, f.Noted, f.Restored = plan.Ours, true, true, false
		f.Serves = true
	case plan.DeletePod:
		w.pod, f.Pod, f.PodKnown = nil, plan.NoPod, false
	case plan.Order:
		f.Touched, f.Down, f.Drained, f.Order, f.Noted = true, true, true, true, false
	case plan.Note:
		f.Noted = true
	case plan.Generalize:
		if w.pod == nil {
			return false // another driver has made it
		}
		f.Pod = plan.PodActive
	case plan.Adopt:
		f.PodKnown = true
	case plan.Believe:
		f.Reported, w.reported = false, nil
		ordersOf(e).readProof(w)
		return f.Proven // without a proof only a new look shows how the pod ended
	case plan.Return:
		w.reservation = w.record.Reservation
		f.Returning, f.Down = true, w.record.LeaveBoot() != ""
		f.Noted = f.Lock != plan.Ours
		f.Snapshot = plan.Complete // the way back does not depend on it
		f.Rebooted = f.Rebooted && w.node != nil && w.node.Status.NodeInfo.BootID != w.record.LeaveBoot()
	case plan.Unprotect:
		f.ProtectionRestored = true
	case plan.DeleteSnapshot:
		f.Snapshot = plan.Deleting
		return promotionOf(e).lookRecipe(ctx, w) == nil // which is read only once the snapshot is on its way out
	case plan.Release:
		f.Lock, f.Restored, f.Serves = plan.Unlocked, true, true
	case plan.SaveRecipe:
		f.Saved = true
	default:
		return false
	}
	return true
}
