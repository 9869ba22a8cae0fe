package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// action is an action of the plan, as the engine performs and reports the action.
type action struct {
	// phase of the status; phaseOf has the exceptions. Empty: the phase depends on the observation.
	phase v1alpha1.Phase
	// run has the effect; nil for a decision that only the status shows. The effect is idempotent: a pass may crash before or
	// after the effect, and the next observation finds the result.
	run func(ctx context.Context, e *Engine, w *observed) error
	// wait sets the poll interval after an effect that takes time. Some actions are repeated until their effect is complete.
	wait plan.Reason
	// next are the actions that may follow in the same pass, because applied knows all changes of this action. Missing are
	// actions for which a new observation may find an obstacle.
	next []plan.Action
	// applied updates the facts as a new observation would find them. known is false if only a new observation can show the
	// effect.
	applied func(ctx context.Context, e *Engine, w *observed) (known bool)
}

// on calls a method of the type that acts on one kind of object.
func on[T ~struct{ *Engine }](run func(T, context.Context, *observed) error) func(context.Context, *Engine, *observed) error {
	return func(ctx context.Context, e *Engine, w *observed) error { return run(T(struct{ *Engine }{e}), ctx, w) }
}

// known is the applied of an action whose effect on the facts is always known.
func known(change func(w *observed)) func(context.Context, *Engine, *observed) bool {
	return func(_ context.Context, _ *Engine, w *observed) bool {
		change(w)
		return true
	}
}

// wait is a wait of the plan, as the engine polls and reports the wait.
type wait struct {
	// phase of the status; waitPhase has the exceptions. Empty: the phase of the action before.
	phase v1alpha1.Phase
	// interval of the passes; reservedPollInterval if zero.
	interval pollInterval
	// text is the progress of a wait that needs no names.
	text string
}

// waits are the waits with a phase or an interval of their own.
var waits = map[plan.Reason]wait{
	plan.ForTurn:        {phase: v1alpha1.PhasePending, interval: idlePollInterval},
	plan.ForNeighbour:   {phase: v1alpha1.PhaseReserving, interval: idlePollInterval},
	plan.ForLook:        {phase: v1alpha1.PhasePreflight, text: "inspecting the node's disk"},
	plan.ForDonor:       {phase: v1alpha1.PhaseDraining, text: "waiting until the donor is Ready"},
	plan.ForProof:       {phase: v1alpha1.PhaseGeneralizing, text: "generalizing"},
	plan.ForPowerOff:    {phase: v1alpha1.PhaseStopping, text: "waiting until the instance is off"},
	plan.ForSnapshot:    {phase: v1alpha1.PhaseSnapshotting, text: "waiting until the snapshot is complete"},
	plan.ForPowerOn:     {phase: v1alpha1.PhaseStarting, interval: bootPollInterval, text: "waiting until the instance runs"},
	plan.ForReady:       {phase: v1alpha1.PhaseWaitingReady, interval: bootPollInterval, text: "waiting until the Node is Ready"},
	plan.ForReplacement: {phase: v1alpha1.PhaseGrowing, interval: idlePollInterval},
	plan.ForAddedNode:   {phase: v1alpha1.PhaseGrowing, interval: addedPollInterval},
	plan.ForRemoval:     {phase: v1alpha1.PhaseRemoving, interval: idlePollInterval},
	plan.ForHolder:      {phase: v1alpha1.PhaseReleasing, interval: idlePollInterval},
	plan.ForImage:       {phase: v1alpha1.PhasePublishing, interval: publishPollInterval},
	plan.ForTrial:       {phase: v1alpha1.PhaseRunningTrial, interval: trialPollInterval, text: "waiting for the next trial"},
	plan.ForPromotion:   {phase: v1alpha1.PhaseAwaitingPromotion, interval: promotionPollInterval},
	plan.ForDeletion:    {interval: deletionPollInterval, text: "waiting until the cloud has deleted the leftovers"},
	plan.ForCloud:       {text: "waiting for the cloud, which does not answer"},
}

// actions are all actions of the plan.
var actions = map[plan.Action]action{
	plan.Wait:   {},
	plan.Refuse: {phase: v1alpha1.PhaseFailed},
	plan.Look:   {phase: v1alpha1.PhasePreflight, run: on(pods.createInspectionPod)},
	plan.Bind:   {phase: v1alpha1.PhaseGrowing, run: on(replacements.bind)},
	plan.Reserve: {
		phase: v1alpha1.PhaseReserving,
		run:   on(donorReservation.reserve),
		next:  []plan.Action{plan.DeletePod},
		applied: known(func(w *observed) {
			f := &w.facts
			w.reservation = w.record.Reservation
			f.Lock, f.Recorded, f.Noted, f.Restored = plan.Ours, true, true, false
			f.CordonRestored = true
		}),
	},
	plan.Record: {
		phase: v1alpha1.PhaseReserving,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return e.record(ctx, w, w.remember(w.reservation))
		},
	},
	plan.Relock: {
		phase: v1alpha1.PhaseReserving,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			_, err := e.reservations().Note(ctx, w.node, *w.reservation)
			return err
		},
	},
	plan.Note: {
		phase:   v1alpha1.PhaseGeneralizing,
		run:     on(donorReservation.repeatRecord),
		next:    []plan.Action{plan.Generalize, plan.Start},
		applied: known(func(w *observed) { w.facts.Noted = true }),
	},
	plan.TakeOut: {
		phase:   v1alpha1.PhaseReserving,
		run:     on(replacements.takeOut),
		next:    []plan.Action{plan.Protect, plan.Cordon},
		applied: known(func(w *observed) { w.facts.MustTakeOut = false }),
	},
	plan.Protect: {
		phase: v1alpha1.PhaseReserving,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return e.Cloud.ProtectFromScaleIn(ctx, w.id, tokenOf(w.reservation))
		},
		next: []plan.Action{plan.Cordon},
		applied: func(ctx context.Context, e *Engine, w *observed) bool {
			w.facts.Protected = true
			return e.lookKuredAgain(ctx, w) == nil
		},
	},
	plan.PatchDonor: {run: patchDonor, wait: plan.ForDonor},
	plan.Cordon: {
		phase: v1alpha1.PhaseDraining,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return node.Cordon(ctx, e.Kube, w.node)
		},
		next: []plan.Action{plan.Evict},
		applied: func(ctx context.Context, e *Engine, w *observed) bool {
			f := &w.facts
			f.Cordoned, f.CordonRestored, f.Restored = true, w.reservation.Unschedulable, false
			return drain{e}.lookPods(ctx, w) == nil
		},
	},
	plan.Evict: {phase: v1alpha1.PhaseDraining, run: on(drain.evict), wait: plan.ForDonor},
	plan.Order: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(orders.order),
		next:  []plan.Action{plan.Note},
		applied: known(func(w *observed) {
			f := &w.facts
			f.Touched, f.PowerOffRecorded, f.Drained, f.Order, f.Noted = true, true, true, true, false
		}),
	},
	plan.Generalize: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(pods.createGeneralizePod),
		next:  []plan.Action{plan.Adopt},
		applied: func(_ context.Context, _ *Engine, w *observed) bool {
			w.facts.Pod = plan.PodActive
			return w.pod != nil // otherwise another process has created the pod
		},
	},
	plan.Adopt: {
		phase:   v1alpha1.PhaseGeneralizing,
		run:     on(pods.adopt),
		next:    []plan.Action{plan.Wait},
		applied: known(func(w *observed) { w.facts.PodKnown = true }),
	},
	plan.Believe: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(orders.believe),
		next:  []plan.Action{plan.DeleteOrder},
		applied: func(_ context.Context, e *Engine, w *observed) bool {
			w.facts.Reported, w.reported = false, nil
			orders{e}.readProof(w)
			return w.facts.Proven // without a proof only a new observation shows how the pod ended
		},
	},
	plan.Stop: {
		phase: v1alpha1.PhaseStopping,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			_, err := e.Cloud.EnsureStopped(ctx, w.id)
			return err
		},
	},
	plan.TakeSnapshot: {
		phase: v1alpha1.PhaseSnapshotting,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			_, err := e.Cloud.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: w.p.Name, Instance: w.id, Tags: w.tags()})
			return err
		},
		wait: plan.ForSnapshot,
	},
	plan.DeletePod: {
		phase: v1alpha1.PhaseStarting,
		run:   on(pods.deletePod),
		next:  []plan.Action{plan.DeleteOrder, plan.Protect, plan.Cordon, plan.Return},
		applied: func(ctx context.Context, e *Engine, w *observed) bool {
			w.pod, w.facts.Pod, w.facts.PodKnown = nil, plan.NoPod, false
			return e.lookKuredAgain(ctx, w) == nil
		},
	},
	plan.DeleteOrder: {
		run:     on(orders.deleteOrder),
		next:    []plan.Action{plan.Return, plan.Wait},
		applied: known(func(w *observed) { w.order, w.facts.Order = nil, false }),
	},
	plan.Return: {
		phase: v1alpha1.PhaseStarting,
		run:   on(donorReservation.recordReturn),
		next:  []plan.Action{plan.Note},
		applied: func(_ context.Context, _ *Engine, w *observed) bool {
			f := &w.facts
			w.reservation = w.record.Reservation
			f.Returning, f.PowerOffRecorded = true, w.record.LeaveBoot() != ""
			f.Noted = f.Lock != plan.Ours
			f.Snapshot = plan.Complete // the return of the donor does not depend on the snapshot
			f.Rebooted = f.Rebooted && w.node != nil && w.node.Status.NodeInfo.BootID != w.record.LeaveBoot()
			return true
		},
	},
	plan.Start: {
		phase: v1alpha1.PhaseStarting,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			_, err := e.Cloud.EnsureStarted(ctx, w.id)
			return err
		},
		wait: plan.ForPowerOn,
	},
	plan.Unprotect: {
		phase: v1alpha1.PhaseReleasing,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return e.Cloud.Unprotect(ctx, w.id, tokenOf(w.reservation))
		},
		next:    []plan.Action{plan.Release},
		applied: known(func(w *observed) { w.facts.ProtectionRestored = true }),
	},
	plan.Serve: {
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return e.reservations().Serve(ctx, w.node, *w.reservation)
		},
	},
	plan.Release: {
		phase: v1alpha1.PhaseReleasing,
		run:   on(donorReservation.release),
		next:  []plan.Action{plan.Forget},
		applied: known(func(w *observed) {
			f := &w.facts
			f.Lock, f.Restored, f.CordonRestored = plan.Unlocked, true, true
		}),
	},
	plan.Forget: {
		phase: v1alpha1.PhaseReleasing,
		run:   on(donorReservation.forget),
		next:  []plan.Action{plan.Publish, plan.Wait},
		applied: func(ctx context.Context, e *Engine, w *observed) bool {
			f := &w.facts
			if f.Failed || f.Deleting {
				return false // leftovers are looked for first
			}
			w.reservation, f.Recorded = nil, false
			if w.record.DonorGone {
				f.Lock = plan.Unlocked
			}
			return artifacts{e}.lookArtifacts(ctx, w) == nil
		},
	},
	plan.Enlarge:    {phase: v1alpha1.PhaseGrowing, run: on(replacements.enlarge)},
	plan.Remove:     {phase: v1alpha1.PhaseRemoving, run: on(replacements.remove)},
	plan.DeleteNode: {phase: v1alpha1.PhaseRemoving, run: on(replacements.deleteNode)},
	plan.Publish: {
		phase: v1alpha1.PhasePublishing,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			_, err := e.Cloud.EnsureImage(ctx, w.imageSpec(e.now()))
			return err
		},
		wait: plan.ForImage,
	},
	plan.DeleteSnapshot: {
		phase: v1alpha1.PhasePublishing,
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return e.Cloud.DeleteSnapshot(ctx, w.id, w.p.Name)
		},
		next: []plan.Action{plan.SaveRecipe, plan.Promote, plan.BeginTrial},
		applied: func(ctx context.Context, e *Engine, w *observed) bool {
			w.facts.Snapshot = plan.Deleting // recipe and lost trials are read only in this state
			return promotion{e}.lookRecipe(ctx, w) == nil && trials{e}.findLostTrial(ctx, w) == nil
		},
	},
	plan.BeginTrial: {
		phase: v1alpha1.PhaseRunningTrial,
		run:   on(trials.begin),
		next:  []plan.Action{plan.BeginTrial},
		applied: func(_ context.Context, _ *Engine, w *observed) bool {
			if w.facts.Trial != plan.NoTrial {
				return false // the cloud has a request for the instance
			}
			w.facts.Trial = plan.TrialDecided
			return true
		},
	},
	plan.WatchTrial: {phase: v1alpha1.PhaseRunningTrial, run: on(trials.watch), wait: plan.ForTrial},
	plan.PassTrial: {
		phase:   v1alpha1.PhaseRunningTrial,
		run:     on(trials.pass),
		next:    []plan.Action{plan.EndTrial},
		applied: known(func(w *observed) { w.facts.VersionVerdict = plan.VerdictPassed }),
	},
	plan.Quarantine: {phase: v1alpha1.PhaseRunningTrial, run: on(trials.quarantine)},
	plan.EndTrial: {
		phase: v1alpha1.PhaseRunningTrial,
		run:   on(trials.end),
		next:  []plan.Action{plan.EndTrial},
		applied: func(_ context.Context, _ *Engine, w *observed) bool {
			if w.facts.Trial == plan.TrialEnding {
				return false // the cloud has a request to remove the instance
			}
			w.facts.Trial = plan.TrialEnding
			return true
		},
	},
	plan.SaveRecipe: {
		phase:   v1alpha1.PhasePromoting,
		run:     on(promotion.saveRecipe),
		next:    []plan.Action{plan.Promote},
		applied: known(func(w *observed) { w.facts.Saved = true }),
	},
	plan.Promote: {
		phase: v1alpha1.PhasePromoting,
		run:   on(promotion.promote),
		wait:  plan.ForDeletion,
		next:  []plan.Action{plan.Retire, plan.ScaleOut, plan.Wait},
		applied: func(ctx context.Context, e *Engine, w *observed) bool {
			return promotion{e}.lookRecipe(ctx, w) == nil
		},
	},
	plan.Retire: {
		phase:   v1alpha1.PhaseRetiring,
		run:     on(promotion.retire),
		next:    []plan.Action{plan.ScaleOut, plan.Wait},
		applied: known(func(w *observed) { w.facts.MustRetire, w.retire = false, nil }),
	},
	plan.ScaleOut: {
		phase:   v1alpha1.PhaseScalingOut,
		run:     on(promotion.scaleOut),
		next:    []plan.Action{plan.Wait},
		applied: known(func(w *observed) { w.facts.MustScaleOut = false }),
	},
	plan.Succeed: {phase: v1alpha1.PhaseSucceeded},
	plan.Fail:    {},
	plan.DeleteImage: {
		run: func(ctx context.Context, e *Engine, w *observed) error {
			return e.Cloud.DeleteImage(ctx, w.ref())
		},
	},
	plan.Close: {phase: v1alpha1.PhaseFailed},
}
