package plan

// From a new Prototype to the copy of the donor's disk. Returning and leaving donors share this course, except that a
// pool may first grow for a leaving donor.

// inPlace continues a capture without a copy.
func inPlace(f Facts) Decision {
	if f.MustBoot() {
		return snapshot(f)
	}
	return prepare(f)
}

// snapshot continues after the order: run the pod, read the proof, wait for the power-off, copy the disk.
func snapshot(f Facts) Decision {
	switch {
	case !f.isHeld(), f.Returning, !f.Touched:
		return fail(Interrupted)
	case f.Power == InstanceGone:
		return fail(DonorGone)
	case f.Rebooted:
		return fail(DonorRestarted)
	case f.Overdue:
		return fail(DeadlineExceeded)
	case !f.Recorded:
		// The Node has the order, but not whether the donor was already returning.
		return fail(RecordLost)
	case !f.Noted:
		return do(Note)
	case f.Outdated:
		return fail(OrderOutdated)
	case f.Reported:
		return do(Believe)
	case f.Proven && f.LevelDiffers:
		return fail(PatchLevelChanged)
	case f.Proven && f.Order:
		// From here on the pod cannot revoke its proof.
		return do(DeleteOrder)
	case f.Proven && (f.Power == Changing || f.Power == On && f.PoweringOff):
		// A cloud takes minutes to stop an instance that powers itself off in seconds.
		return wait(ForPowerOff)
	case f.Proven && f.Power == On:
		return do(Stop)
	case f.Proven:
		return do(TakeSnapshot)
	case f.Pod == PodFailed:
		return fail(GeneralizeFailed)
	case f.Pod != NoPod && !f.PodKnown:
		return do(Adopt)
	case f.Power == Off:
		return fail(NotProven)
	case f.Pod == NoPod && f.Node == NodeGone:
		// Without a Node no kubelet runs the pod. The kubelet creates a Node only after a boot.
		return fail(DonorGone)
	case f.Pod == NoPod && f.Power == On:
		return do(Generalize)
	default:
		return wait(ForProof)
	}
}

// prepare leads from a new Prototype to a drained donor. Each protection precedes the step that needs it. An inspection
// that is not used at once is repeated later.
func prepare(f Facts) Decision {
	switch {
	case !f.isHeld() && f.Pod != NoPod && (f.Refused || f.Lock != Unlocked || f.Queued):
		return do(DeletePod)
	case !f.isHeld() && (f.Refused || f.Lock != Unlocked):
		return do(Refuse)
	case !f.isHeld() && f.Queued:
		return wait(ForTurn)
	case f.Node == NodeGone || f.Power == InstanceGone:
		return fail(DonorGone)
	case f.Power == Off:
		return fail(DonorStopped)
	case !f.isHeld():
		return inspectFirst(f)
	case f.Lock == Overwritten && !f.Overdue, f.Added && f.Lock == Unlocked && !f.Overdue:
		return do(Relock) // the record of an added donor precedes its lock
	case f.Lock != Ours:
		return fail(ReservationLost)
	case f.Overdue:
		return fail(DeadlineExceeded)
	case !f.Recorded:
		return do(Record)
	case f.Pod != NoPod && (!f.Added || f.Patch != PatchWanted):
		return do(DeletePod) // the inspection is complete; the generalize pod needs the name
	default:
		return prepareHeld(f)
	}
}

// prepareHeld leads from the reservation to a drained donor. A pioneer is patched first.
func prepareHeld(f Facts) Decision {
	switch {
	case f.Added && f.Patch == PatchWanted && f.MustTakeOut:
		return do(TakeOut)
	case f.Added && f.Patch == PatchWanted && !f.Cordoned:
		return do(Cordon) // before the first pods arrive
	case f.Patch == PatchUnderWay:
		return do(PatchDonor)
	case f.Patch == PatchFailed:
		return fail(DonorNotPatched)
	case f.Patch == PatchCurrent:
		return fail(NothingToPatch)
	case !f.Cordoned && f.Queued:
		return wait(ForNeighbour)
	case f.DonorReplaced && f.GrowFirst && !f.Added && f.Replacement != ReplacementReady:
		return awaitReplacement(f)
	case f.MustTakeOut:
		return do(TakeOut)
	case !f.Protected:
		return do(Protect)
	case f.Added && f.Patch == PatchWanted:
		return inspectAdded(f)
	case f.Patch == PatchWanted:
		return do(PatchDonor)
	case !f.Cordoned:
		return do(Cordon)
	case !f.Drained && f.DrainOverdue:
		return fail(DrainTimeout)
	case !f.Drained:
		return do(Evict)
	case f.Node != NodeReady || f.Power != On:
		return wait(ForDonor)
	default:
		return do(Order)
	}
}

// inspectAdded inspects the disk of an added donor before the patch, so that no patch and soak precede a refusal. The begin of
// the patch records the end of the inspection.
func inspectAdded(f Facts) Decision {
	switch {
	case f.Pod == PodFailed:
		return fail(DiskCheckFailed)
	case f.Pod == PodActive:
		return wait(ForLook)
	case f.Node != NodeReady:
		return wait(ForDonor)
	case f.Pod == PodLooked:
		return do(PatchDonor)
	}
	return do(Look)
}

// inspectFirst inspects the donor's disk before the reservation. The inspection can only refuse: the pod's report is
// unsigned.
func inspectFirst(f Facts) Decision {
	switch f.Pod {
	case NoPod, PodCompared:
		return do(Look)
	case PodActive:
		return wait(ForLook)
	case PodFailed:
		return fail(DiskCheckFailed)
	case PodLooked:
	}
	return do(Reserve)
}
