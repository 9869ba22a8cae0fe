package capture

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// action is an action of the plan, as the engine performs and reports the action.
type action struct {
	// phase of the status; phaseOf has the exceptions. Empty: the phase depends on the observation.
	phase v1alpha1.Phase
	// run returns the effect; nil for a decision that only the status shows. The effect is idempotent: a pass may crash before or
	// after the effect, and the next observation finds the result.
	run func(rooms) effect
	// wait sets the poll interval after an effect that takes time. Some actions are repeated until their effect is complete.
	wait plan.Reason
}

// effect is the effect of an action.
type effect = func(context.Context, *pass) error

// actions are all actions of the plan.
var actions = map[plan.Action]action{
	plan.Wait:           {},
	plan.Refuse:         {phase: v1alpha1.PhaseFailed},
	plan.Look:           {phase: v1alpha1.PhasePreflight, run: func(r rooms) effect { return r.pods.createInspectionPod }},
	plan.Reserve:        {phase: v1alpha1.PhaseReserving, run: func(r rooms) effect { return r.hold.reserve }},
	plan.Record:         {phase: v1alpha1.PhaseReserving, run: func(r rooms) effect { return r.hold.copyToRecord }},
	plan.Relock:         {phase: v1alpha1.PhaseReserving, run: func(r rooms) effect { return r.hold.relock }},
	plan.Note:           {phase: v1alpha1.PhaseGeneralizing, run: func(r rooms) effect { return r.hold.repeatRecord }},
	plan.Protect:        {phase: v1alpha1.PhaseReserving, run: func(r rooms) effect { return r.hold.protect }},
	plan.PatchDonor:     {run: func(r rooms) effect { return r.patching.step }, wait: plan.ForDonor},
	plan.Cordon:         {phase: v1alpha1.PhaseDraining, run: func(r rooms) effect { return r.hold.cordon }},
	plan.Evict:          {phase: v1alpha1.PhaseDraining, run: func(r rooms) effect { return r.drain.evict }, wait: plan.ForDonor},
	plan.Order:          {phase: v1alpha1.PhaseGeneralizing, run: func(r rooms) effect { return r.orders.order }},
	plan.Generalize:     {phase: v1alpha1.PhaseGeneralizing, run: func(r rooms) effect { return r.pods.createGeneralizePod }},
	plan.Adopt:          {phase: v1alpha1.PhaseGeneralizing, run: func(r rooms) effect { return r.pods.adopt }},
	plan.Believe:        {phase: v1alpha1.PhaseGeneralizing, run: func(r rooms) effect { return r.orders.believe }},
	plan.Stop:           {phase: v1alpha1.PhaseStopping, run: func(r rooms) effect { return r.hold.stop }},
	plan.TakeSnapshot:   {phase: v1alpha1.PhaseSnapshotting, run: func(r rooms) effect { return r.images.copyDisk }, wait: plan.ForSnapshot},
	plan.BeginWorkshop:  {phase: v1alpha1.PhaseStartingWorkshop, run: func(r rooms) effect { return r.copying.beginWorkshop }},
	plan.EndWorkshop:    {phase: v1alpha1.PhaseReleasing, run: func(r rooms) effect { return r.copying.endWorkshop }, wait: plan.ForDeletion},
	plan.QuiesceDonor:   {phase: v1alpha1.PhaseQuiescing, run: func(r rooms) effect { return r.copying.quiesce }},
	plan.CopyRunning:    {phase: v1alpha1.PhaseCopying, run: func(r rooms) effect { return r.copying.copyRunning }},
	plan.DeleteRawCopy:  {phase: v1alpha1.PhaseCopying, run: func(r rooms) effect { return r.copying.deleteRaw }},
	plan.AttachVolume:   {phase: v1alpha1.PhaseCopying, run: func(r rooms) effect { return r.copying.attach }, wait: plan.ForVolume},
	plan.DetachVolume:   {phase: v1alpha1.PhaseSnapshotting, run: func(r rooms) effect { return r.copying.detach }, wait: plan.ForVolume},
	plan.DeleteVolume:   {phase: v1alpha1.PhaseReleasing, run: func(r rooms) effect { return r.copying.deleteDisk }, wait: plan.ForDeletion},
	plan.DeletePod:      {phase: v1alpha1.PhaseStarting, run: func(r rooms) effect { return r.pods.deletePod }},
	plan.DeleteOrder:    {run: func(r rooms) effect { return r.orders.deleteOrder }},
	plan.Return:         {phase: v1alpha1.PhaseStarting, run: func(r rooms) effect { return r.hold.recordReturn }},
	plan.Start:          {phase: v1alpha1.PhaseStarting, run: func(r rooms) effect { return r.hold.start }, wait: plan.ForPowerOn},
	plan.Unprotect:      {phase: v1alpha1.PhaseReleasing, run: func(r rooms) effect { return r.hold.unprotect }},
	plan.Serve:          {run: func(r rooms) effect { return r.hold.serve }},
	plan.Release:        {phase: v1alpha1.PhaseReleasing, run: func(r rooms) effect { return r.hold.release }},
	plan.Forget:         {phase: v1alpha1.PhaseReleasing, run: func(r rooms) effect { return r.hold.forget }},
	plan.Publish:        {phase: v1alpha1.PhasePublishing, run: func(r rooms) effect { return r.images.publish }, wait: plan.ForImage},
	plan.DeleteSnapshot: {phase: v1alpha1.PhasePublishing, run: func(r rooms) effect { return r.images.deleteSnapshot }},
	plan.BeginTrial:     {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.begin }},
	plan.WatchTrial:     {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.watch }, wait: plan.ForTrial},
	plan.RebootTrial:    {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.reboot }, wait: plan.ForTrial},
	plan.PassType:       {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.passType }},
	plan.PassTrial:      {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.pass }},
	plan.Quarantine:     {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.quarantine }},
	plan.EndTrial:       {phase: v1alpha1.PhaseRunningTrial, run: func(r rooms) effect { return r.trials.end }},
	plan.SaveRecipe:     {phase: v1alpha1.PhasePromoting, run: func(r rooms) effect { return r.promotion.saveRecipe }},
	plan.Promote:        {phase: v1alpha1.PhasePromoting, run: func(r rooms) effect { return r.promotion.promote }, wait: plan.ForDeletion},
	plan.Retire:         {phase: v1alpha1.PhaseRetiring, run: func(r rooms) effect { return r.promotion.retire }},
	plan.Succeed:        {phase: v1alpha1.PhaseSucceeded},
	plan.Fail:           {},
	plan.DeleteImage:    {run: func(r rooms) effect { return r.images.deleteVersion }},
	plan.Close:          {phase: v1alpha1.PhaseFailed},
}

// act performs the decision.
func (r rooms) act(ctx context.Context, w *pass, d plan.Decision) error {
	r.events.announce(w, d)
	performed, known := actions[d.Do]
	switch {
	case !known:
		return fmt.Errorf("no such action: %s", d.Do)
	case performed.run == nil:
		return nil
	}
	if err := r.hold.permit(ctx, w, d.Do); err != nil {
		return err
	}
	return performed.run(r)(ctx, w)
}
