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
	run func(ctx context.Context, e *Engine, w *pass) error
	// wait sets the poll interval after an effect that takes time. Some actions are repeated until their effect is complete.
	wait plan.Reason
}

// on calls a method of the type that acts on one kind of object.
func on[T ~struct{ *Engine }](run func(T, context.Context, *pass) error) func(context.Context, *Engine, *pass) error {
	return func(ctx context.Context, e *Engine, w *pass) error { return run(T(struct{ *Engine }{e}), ctx, w) }
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
	},
	plan.Record: {
		phase: v1alpha1.PhaseReserving,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return e.record(ctx, w, w.remember(w.donor.reservation))
		},
	},
	plan.Relock: {
		phase: v1alpha1.PhaseReserving,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			_, err := e.reservations().Note(ctx, w.donor.node, *w.donor.reservation)
			return err
		},
	},
	plan.Note: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(donorReservation.repeatRecord),
	},
	plan.TakeOut: {
		phase: v1alpha1.PhaseReserving,
		run:   on(replacements.takeOut),
	},
	plan.Protect: {
		phase: v1alpha1.PhaseReserving,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return e.Cloud.ProtectFromScaleIn(ctx, w.id, tokenOf(w.donor.reservation))
		},
	},
	plan.PatchDonor: {run: patchDonor, wait: plan.ForDonor},
	plan.Cordon: {
		phase: v1alpha1.PhaseDraining,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return node.Cordon(ctx, e.Kube, w.donor.node)
		},
	},
	plan.Evict: {phase: v1alpha1.PhaseDraining, run: on(drain.evict), wait: plan.ForDonor},
	plan.Order: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(orders.order),
	},
	plan.Generalize: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(pods.createGeneralizePod),
	},
	plan.Adopt: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(pods.adopt),
	},
	plan.Believe: {
		phase: v1alpha1.PhaseGeneralizing,
		run:   on(orders.believe),
	},
	plan.Stop: {
		phase: v1alpha1.PhaseStopping,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			_, err := e.Cloud.EnsureStopped(ctx, w.id)
			return err
		},
	},
	plan.TakeSnapshot: {
		phase: v1alpha1.PhaseSnapshotting,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			_, err := e.Cloud.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: w.p.Name, Instance: w.id, Tags: w.tags()})
			return err
		},
		wait: plan.ForSnapshot,
	},
	plan.DeletePod: {
		phase: v1alpha1.PhaseStarting,
		run:   on(pods.deletePod),
	},
	plan.DeleteOrder: {
		run: on(orders.deleteOrder),
	},
	plan.Return: {
		phase: v1alpha1.PhaseStarting,
		run:   on(donorReservation.recordReturn),
	},
	plan.Start: {
		phase: v1alpha1.PhaseStarting,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			_, err := e.Cloud.EnsureStarted(ctx, w.id)
			return err
		},
		wait: plan.ForPowerOn,
	},
	plan.Unprotect: {
		phase: v1alpha1.PhaseReleasing,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return e.Cloud.Unprotect(ctx, w.id, tokenOf(w.donor.reservation))
		},
	},
	plan.Serve: {
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return e.reservations().Serve(ctx, w.donor.node, *w.donor.reservation)
		},
	},
	plan.Release: {
		phase: v1alpha1.PhaseReleasing,
		run:   on(donorReservation.release),
	},
	plan.Forget: {
		phase: v1alpha1.PhaseReleasing,
		run:   on(donorReservation.forget),
	},
	plan.Enlarge:    {phase: v1alpha1.PhaseGrowing, run: on(replacements.enlarge)},
	plan.Remove:     {phase: v1alpha1.PhaseRemoving, run: on(replacements.remove)},
	plan.DeleteNode: {phase: v1alpha1.PhaseRemoving, run: on(replacements.deleteNode)},
	plan.Publish: {
		phase: v1alpha1.PhasePublishing,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			_, err := e.Cloud.EnsureImage(ctx, w.imageSpec(e.now()))
			return err
		},
		wait: plan.ForImage,
	},
	plan.DeleteSnapshot: {
		phase: v1alpha1.PhasePublishing,
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return e.Cloud.DeleteSnapshot(ctx, w.id, w.p.Name)
		},
	},
	plan.BeginTrial: {
		phase: v1alpha1.PhaseRunningTrial,
		run:   on(trials.begin),
	},
	plan.WatchTrial: {phase: v1alpha1.PhaseRunningTrial, run: on(trials.watch), wait: plan.ForTrial},
	plan.PassTrial: {
		phase: v1alpha1.PhaseRunningTrial,
		run:   on(trials.pass),
	},
	plan.Quarantine: {phase: v1alpha1.PhaseRunningTrial, run: on(trials.quarantine)},
	plan.EndTrial: {
		phase: v1alpha1.PhaseRunningTrial,
		run:   on(trials.end),
	},
	plan.SaveRecipe: {
		phase: v1alpha1.PhasePromoting,
		run:   on(promotion.saveRecipe),
	},
	plan.Promote: {
		phase: v1alpha1.PhasePromoting,
		run:   on(promotion.promote),
		wait:  plan.ForDeletion,
	},
	plan.Retire: {
		phase: v1alpha1.PhaseRetiring,
		run:   on(promotion.retire),
	},
	plan.ScaleOut: {
		phase: v1alpha1.PhaseScalingOut,
		run:   on(promotion.scaleOut),
	},
	plan.Succeed: {phase: v1alpha1.PhaseSucceeded},
	plan.Fail:    {},
	plan.DeleteImage: {
		run: func(ctx context.Context, e *Engine, w *pass) error {
			return e.Cloud.DeleteImage(ctx, w.ref())
		},
	},
	plan.Close: {phase: v1alpha1.PhaseFailed},
}
