package capture

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

// maxFactAge is how old the facts of a pass may be when the pass decides once more: as old as those of a wait.
const maxFactAge = 5 * time.Second

// followUps are the actions that may follow an action in the same pass, without a new look. applyEffect knows everything that the first
// action changes, or reads it again: whether kured has taken a node before the donor is taken, the pods before they are evicted, the
// version before it is published, and the recipe before and after it is written. An action has no place here where a new look may find
// another reason against it: a stranger has started the donor.
var followUps = map[plan.Action][]plan.Action{
	plan.Reserve:        {plan.DeletePod},
	plan.DeletePod:      {plan.DeleteOrder, plan.Protect, plan.Cordon, plan.Return},
	plan.DeleteOrder:    {plan.Return, plan.Wait},
	plan.Protect:        {plan.Cordon},
	plan.Cordon:         {plan.Evict},
	plan.Order:          {plan.Note},
	plan.Note:           {plan.Generalize, plan.Start},
	plan.Generalize:     {plan.Adopt},
	plan.Adopt:          {plan.Wait},
	plan.Believe:        {plan.DeleteOrder},
	plan.Return:         {plan.Note},
	plan.Unprotect:      {plan.Release},
	plan.Release:        {plan.Forget},
	plan.Forget:         {plan.Publish, plan.Wait},
	plan.DeleteSnapshot: {plan.SaveRecipe, plan.Promote, plan.BeginTrial},
	plan.BeginTrial:     {plan.BeginTrial},
	plan.PassTrial:      {plan.EndTrial},
	plan.EndTrial:       {plan.EndTrial},
	plan.SaveRecipe:     {plan.Promote},
	plan.Promote:        {plan.Retire, plan.ScaleOut, plan.Wait},
	plan.Retire:         {plan.ScaleOut, plan.Wait},
	plan.ScaleOut:       {plan.Wait},
}

// isAgeless reports whether what follows an action rests on what the action has written down, whatever the age of the facts.
func isAgeless(done plan.Action) bool {
	return done == plan.BeginTrial || done == plan.PassTrial || done == plan.EndTrial
}

// followUp decides what the pass does next after an action that went through. A pass whose facts are old, or whose next action needs
// a new look, is over. What is done next belongs under the context that it returns.
func (e *Engine) followUp(ctx context.Context, w *observed, done plan.Decision) (within context.Context, next plan.Decision, found bool) {
	allowed := followUps[done.Do]
	if len(allowed) == 0 || w.orphan || w.reads != nil || e.now().Sub(w.lookedAt) > maxFactAge && !isAgeless(done.Do) {
		return ctx, plan.Decision{}, false
	}
	if cloud.ReadCacheOf(ctx).IsInvalid() {
		ctx = cloud.WithReadCache(ctx)
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
func applyEffect(ctx context.Context, e *Engine, w *observed, done plan.Action) (known bool) {
	effect, found := effects[done]
	return found && effect(ctx, e, w)
}

// effects are what the actions change, each as applyEffect does it.
var effects = map[plan.Action]func(ctx context.Context, e *Engine, w *observed) (known bool){
	plan.Reserve: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		w.reservation = w.record.Reservation
		f.Lock, f.Recorded, f.Noted, f.Restored = plan.Ours, true, true, false
		f.Serves = true
		return true
	},
	plan.DeletePod: func(ctx context.Context, e *Engine, w *observed) bool {
		w.pod, w.facts.Pod, w.facts.PodKnown = nil, plan.NoPod, false
		return e.lookKuredAgain(ctx, w) == nil
	},
	plan.DeleteOrder: func(_ context.Context, _ *Engine, w *observed) bool {
		w.order, w.facts.Order = nil, false
		return true
	},
	plan.Protect: func(ctx context.Context, e *Engine, w *observed) bool {
		w.facts.Protected = true
		return e.lookKuredAgain(ctx, w) == nil
	},
	plan.Cordon: func(ctx context.Context, e *Engine, w *observed) bool {
		f := &w.facts
		f.Cordoned, f.Serves, f.Restored = true, w.reservation.Unschedulable, false
		return drainOf(e).lookPods(ctx, w) == nil
	},
	plan.Order: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		f.Touched, f.Down, f.Drained, f.Order, f.Noted = true, true, true, true, false
		return true
	},
	plan.Note: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Noted = true
		return true
	},
	plan.Generalize: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Pod = plan.PodActive
		return w.pod != nil // else another driver has made it
	},
	plan.Adopt: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.PodKnown = true
		return true
	},
	plan.Believe: func(_ context.Context, e *Engine, w *observed) bool {
		w.facts.Reported, w.reported = false, nil
		ordersOf(e).readProof(w)
		return w.facts.Proven // without a proof only a new look shows how the pod ended
	},
	plan.Return: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		w.reservation = w.record.Reservation
		f.Returning, f.Down = true, w.record.LeaveBoot() != ""
		f.Noted = f.Lock != plan.Ours
		f.Snapshot = plan.Complete // the way back does not depend on it
		f.Rebooted = f.Rebooted && w.node != nil && w.node.Status.NodeInfo.BootID != w.record.LeaveBoot()
		return true
	},
	plan.Unprotect: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.ProtectionRestored = true
		return true
	},
	plan.Release: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		f.Lock, f.Restored, f.Serves = plan.Unlocked, true, true
		return true
	},
	plan.Forget: func(ctx context.Context, e *Engine, w *observed) bool {
		f := &w.facts
		if f.Failed || f.Deleting {
			return false // what is left behind is looked for first
		}
		w.reservation, f.Recorded = nil, false
		return artifactsOf(e).lookArtifacts(ctx, w) == nil
	},
	plan.DeleteSnapshot: func(ctx context.Context, e *Engine, w *observed) bool {
		w.facts.Snapshot = plan.Deleting // only then recipe and lost trials are read
		return promotionOf(e).lookRecipe(ctx, w) == nil && trialsOf(e).lookLost(ctx, w) == nil
	},
	plan.BeginTrial: func(_ context.Context, _ *Engine, w *observed) bool {
		if w.facts.Trial != plan.NoTrial {
			return false // the cloud was asked for the instance
		}
		w.facts.Trial = plan.TrialDecided
		return true
	},
	plan.PassTrial: func(_ context.Context, e *Engine, w *observed) bool {
		w.facts.Tried = plan.VerdictPassed
		w.image.Tags = maps.Clone(w.image.Tags)
		w.image.Tags[cloud.TagTrial] = trial.Mark(trial.Passed, e.now())
		return true
	},
	plan.SaveRecipe: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Saved = true
		return true
	},
	plan.Promote: func(ctx context.Context, e *Engine, w *observed) bool {
		return promotionOf(e).lookRecipe(ctx, w) == nil
	},
	plan.Retire: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Excess, w.retire = false, nil
		return true
	},
	plan.ScaleOut: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Growing = false
		return true
	},
	plan.EndTrial: func(_ context.Context, _ *Engine, w *observed) bool {
		if w.facts.Trial == plan.TrialEnding {
			return false // the cloud was asked to remove the instance
		}
		w.facts.Trial = plan.TrialEnding
		return true
	},
}
