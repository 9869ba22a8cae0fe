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

// maxFactAge is the maximum age of facts for a further decision in the same pass, equal to the longest poll interval of
// a held donor.
const maxFactAge = 5 * time.Second

// followUps are the actions that may follow in the same pass, because applyEffect knows all changes of the first action.
// Missing are actions for which a new observation may find an obstacle.
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

// isAgeless reports whether the next action depends only on the record of this action, whatever the age of the facts.
func isAgeless(done plan.Action) bool {
	return done == plan.BeginTrial || done == plan.PassTrial || done == plan.EndTrial
}

// followUp decides the next action of the pass after a successful action. The pass ends if its facts are old, or if the
// next action needs a new observation. The next action must use the returned context.
func (e *Engine) followUp(ctx context.Context, w *observed, done plan.Decision) (within context.Context, next plan.Decision, found bool) {
	allowed := followUps[done.Do]
	if len(allowed) == 0 || w.isOrphan || w.reads != nil || e.now().Sub(w.observedAt) > maxFactAge && !isAgeless(done.Do) {
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

// applyEffect updates the facts as a new observation would find them. known is false if only a new observation can show
// the effect.
func applyEffect(ctx context.Context, e *Engine, w *observed, done plan.Action) (known bool) {
	effect, found := effects[done]
	return found && effect(ctx, e, w)
}

// effects are the changes of facts by action.
var effects = map[plan.Action]func(ctx context.Context, e *Engine, w *observed) (known bool){
	plan.Reserve: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		w.reservation = w.record.Reservation
		f.Lock, f.Recorded, f.Noted, f.Restored = plan.Ours, true, true, false
		f.CordonRestored = true
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
		f.Cordoned, f.CordonRestored, f.Restored = true, w.reservation.Unschedulable, false
		return drainOf(e).lookPods(ctx, w) == nil
	},
	plan.Order: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		f.Touched, f.PowerOffRecorded, f.Drained, f.Order, f.Noted = true, true, true, true, false
		return true
	},
	plan.Note: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Noted = true
		return true
	},
	plan.Generalize: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.Pod = plan.PodActive
		return w.pod != nil // otherwise another process has created the pod
	},
	plan.Adopt: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.PodKnown = true
		return true
	},
	plan.Believe: func(_ context.Context, e *Engine, w *observed) bool {
		w.facts.Reported, w.reported = false, nil
		ordersOf(e).readProof(w)
		return w.facts.Proven // without a proof only a new observation shows how the pod ended
	},
	plan.Return: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		w.reservation = w.record.Reservation
		f.Returning, f.PowerOffRecorded = true, w.record.LeaveBoot() != ""
		f.Noted = f.Lock != plan.Ours
		f.Snapshot = plan.Complete // the return of the donor does not depend on the snapshot
		f.Rebooted = f.Rebooted && w.node != nil && w.node.Status.NodeInfo.BootID != w.record.LeaveBoot()
		return true
	},
	plan.Unprotect: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.ProtectionRestored = true
		return true
	},
	plan.Release: func(_ context.Context, _ *Engine, w *observed) bool {
		f := &w.facts
		f.Lock, f.Restored, f.CordonRestored = plan.Unlocked, true, true
		return true
	},
	plan.Forget: func(ctx context.Context, e *Engine, w *observed) bool {
		f := &w.facts
		if f.Failed || f.Deleting {
			return false // leftovers are looked for first
		}
		w.reservation, f.Recorded = nil, false
		return artifactsOf(e).lookArtifacts(ctx, w) == nil
	},
	plan.DeleteSnapshot: func(ctx context.Context, e *Engine, w *observed) bool {
		w.facts.Snapshot = plan.Deleting // recipe and lost trials are read only in this state
		return promotionOf(e).lookRecipe(ctx, w) == nil && trialsOf(e).findLostTrial(ctx, w) == nil
	},
	plan.BeginTrial: func(_ context.Context, _ *Engine, w *observed) bool {
		if w.facts.Trial != plan.NoTrial {
			return false // the cloud has a request for the instance
		}
		w.facts.Trial = plan.TrialDecided
		return true
	},
	plan.PassTrial: func(_ context.Context, e *Engine, w *observed) bool {
		w.facts.VersionVerdict = plan.VerdictPassed
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
		w.facts.MustRetire, w.retire = false, nil
		return true
	},
	plan.ScaleOut: func(_ context.Context, _ *Engine, w *observed) bool {
		w.facts.MustScaleOut = false
		return true
	},
	plan.EndTrial: func(_ context.Context, _ *Engine, w *observed) bool {
		if w.facts.Trial == plan.TrialEnding {
			return false // the cloud has a request to remove the instance
		}
		w.facts.Trial = plan.TrialEnding
		return true
	},
}
