package capture

import (
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// phaseOf is the phase of a capture after a decision.
func phaseOf(w *pass, d plan.Decision) v1alpha1.Phase {
	switch {
	case endsBeforeReservation(w, d):
		return v1alpha1.PhasePreflight
	case d.Do == plan.Fail, w.ends() && d.Do != plan.Close:
		return v1alpha1.PhaseCleaningUp
	case d.Do == plan.PatchDonor:
		return patchPhase(w)
	case w.facts.Copy.Wanted:
		return copyPhase(w, d)
	}
	return inPlacePhase(w, d)
}

// inPlacePhase is the phase of a capture in place that does not end.
func inPlacePhase(w *pass, d plan.Decision) v1alpha1.Phase {
	switch {
	case endsPhase(w, d):
		return w.p.Status.Phase
	case d.Do == plan.Wait:
		return waitPhase(w, d.Why)
	case d.Do == plan.DeletePod && !w.facts.Disk.Touched:
		return v1alpha1.PhaseReserving // after the inspection
	case d.Do == plan.Note && w.facts.Hold.Returning:
		return v1alpha1.PhaseStarting
	case d.Do == plan.Believe && w.disk.reported != nil && w.disk.reported.Proof != nil:
		return v1alpha1.PhaseStopping // the donor powers itself off after its proof
	}
	return actions[d.Do].phase
}

// copyPhase is the phase of a capture by copy that does not end.
func copyPhase(w *pass, d plan.Decision) v1alpha1.Phase {
	switch {
	case replacesWorkshop(w):
		return v1alpha1.PhaseStartingWorkshop
	case !w.facts.Disk.Proven && w.copyRecord().Try > 0 && slices.Contains(copySteps, d):
		return v1alpha1.PhaseCopying
	case w.facts.Disk.Proven && d.Do == plan.DeletePod:
		return v1alpha1.PhaseGeneralizing
	case endsPhase(w, d):
		return w.p.Status.Phase
	case d.Do == plan.Wait:
		return waitPhase(w, d.Why)
	case d.Do == plan.DeletePod && !w.facts.Disk.Touched:
		return v1alpha1.PhaseReserving // after the inspection
	}
	return actions[d.Do].phase
}

// replacesWorkshop reports whether a lost workshop is removed, and a fresh one follows.
func replacesWorkshop(w *pass) bool {
	f := &w.facts
	if w.ends() || f.Image.Snapshot != plan.Absent || f.Image.Version != plan.Absent || w.copyRecord().Workshops == 0 {
		return false
	}
	return slices.Contains([]plan.Workshop{plan.WorkshopLost, plan.WorkshopAway, plan.WorkshopEnding, plan.NoWorkshop}, f.Copy.Workshop)
}

// copySteps are decisions of other phases that belong to the copy of a disk in use.
var copySteps = []plan.Decision{{Do: plan.DeletePod}, {Do: plan.Wait, Why: plan.ForSnapshot}}

// phaseless are waits that belong to the phase before.
var phaseless = []plan.Reason{plan.ForDeletion, plan.ForVolume, plan.ForCloud}

// endsPhase reports whether the decision belongs to the previous phase, as its end.
func endsPhase(w *pass, d plan.Decision) bool {
	isWait := d.Do == plan.Wait && slices.Contains(phaseless, d.Why)
	return isWait || d.Do == plan.DeleteOrder || d.Do == plan.Serve || d.Do == plan.DeletePod && w.facts.Donor.Patch == plan.PatchUnderWay
}

// waitPhase is the phase of a wait. A snapshot that is pending after the donor's release belongs to the publication.
func waitPhase(w *pass, why plan.Reason) v1alpha1.Phase {
	switch {
	case why == plan.ForSnapshot && !w.isHeld():
		return v1alpha1.PhasePublishing
	case why == plan.ForDonor && w.facts.Copy.Wanted:
		return v1alpha1.PhaseQuiescing
	}
	return waits[why].phase
}

// endsBeforeReservation reports whether the capture ends, or is about to end, without a reservation.
func endsBeforeReservation(w *pass, d plan.Decision) bool {
	return d.Do == plan.Fail && d.Why == plan.DiskCheckFailed && !w.isHeld() ||
		d.Do == plan.DeletePod && !w.facts.Disk.Touched && !w.isHeld() && w.p.Status.Donor == nil
}
