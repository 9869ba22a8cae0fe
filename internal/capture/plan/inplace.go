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
	case !f.isHeld(), f.Hold.Returning, !f.Disk.Touched:
		return fail(Interrupted)
	case f.Donor.Power == InstanceGone:
		return fail(DonorGone)
	case f.Donor.Rebooted:
		return fail(DonorRestarted)
	case f.Hold.Overdue:
		return fail(DeadlineExceeded)
	case !f.Hold.Recorded:
		// The Node has the order, but not whether the donor was already returning.
		return fail(RecordLost)
	case !f.Hold.Noted:
		return do(Note)
	case f.Disk.Outdated:
		return fail(OrderOutdated)
	case f.Disk.Reported:
		return do(Believe)
	case f.Disk.Proven && f.Disk.LevelDiffers:
		return fail(PatchLevelChanged)
	case f.Disk.Proven && f.Disk.Order:
		// From here on the pod cannot revoke its proof.
		return do(DeleteOrder)
	case f.Disk.Proven && (f.Donor.Power == Changing || f.Donor.Power == On && f.Disk.PoweringOff):
		// A cloud takes minutes to stop an instance that powers itself off in seconds.
		return wait(ForPowerOff)
	case f.Disk.Proven && f.Donor.Power == On:
		return do(Stop)
	case f.Disk.Proven:
		return do(TakeSnapshot)
	case f.Disk.Pod == PodFailed:
		return fail(GeneralizeFailed)
	case f.Disk.Pod != NoPod && !f.Disk.PodKnown:
		return do(Adopt)
	case f.Donor.Power == Off:
		return fail(NotProven)
	case f.Disk.Pod == NoPod && f.Donor.Node == NodeGone:
		// Without a Node no kubelet runs the pod. The kubelet creates a Node only after a boot.
		return fail(DonorGone)
	case f.Disk.Pod == NoPod && f.Donor.Power == On:
		return do(Generalize)
	default:
		return wait(ForProof)
	}
}

// prepare leads from a new Prototype to a drained donor. Each protection precedes the step that needs it. An inspection
// that is not used at once is repeated later.
func prepare(f Facts) Decision {
	switch {
	case !f.isHeld() && f.Disk.Pod != NoPod && (f.Refused || f.Hold.Lock != Unlocked || f.Queued):
		return do(DeletePod)
	case !f.isHeld() && (f.Refused || f.Hold.Lock != Unlocked):
		return do(Refuse)
	case !f.isHeld() && f.Queued:
		return wait(ForTurn)
	case f.Donor.Node == NodeGone || f.Donor.Power == InstanceGone:
		return fail(DonorGone)
	case f.Donor.Power == Off:
		return fail(DonorStopped)
	case !f.isHeld():
		return inspectFirst(f)
	case f.Hold.Lock == Overwritten && !f.Hold.Overdue, f.Leaving.Added && f.Hold.Lock == Unlocked && !f.Hold.Overdue:
		return do(Relock) // the record of an added donor precedes its lock
	case f.Hold.Lock != Ours:
		return fail(ReservationLost)
	case f.Hold.Overdue:
		return fail(DeadlineExceeded)
	case !f.Hold.Recorded:
		return do(Record)
	case f.Disk.Pod != NoPod && (!f.Leaving.Added || f.Donor.Patch != PatchWanted):
		return do(DeletePod) // the inspection is complete; the generalize pod needs the name
	default:
		return prepareHeld(f)
	}
}

// prepareHeld leads from the reservation to a drained donor. A pioneer is patched first.
func prepareHeld(f Facts) Decision {
	switch {
	case f.Leaving.Added && f.Donor.Patch == PatchWanted && f.Leaving.MustTakeOut:
		return do(TakeOut)
	case f.Leaving.Added && f.Donor.Patch == PatchWanted && !f.Donor.Cordoned:
		return do(Cordon) // before the first pods arrive
	case f.Donor.Patch == PatchUnderWay:
		return do(PatchDonor)
	case f.Donor.Patch == PatchFailed:
		return fail(DonorNotPatched)
	case f.Donor.Patch == PatchCurrent:
		return fail(NothingToPatch)
	case !f.Donor.Cordoned && f.Queued:
		return wait(ForNeighbour)
	case f.Leaving.Replaced && f.Leaving.GrowFirst && !f.Leaving.Added && f.Leaving.Replacement != ReplacementReady:
		return awaitReplacement(f)
	case f.Leaving.MustTakeOut:
		return do(TakeOut)
	case !f.Hold.Protected:
		return do(Protect)
	case f.Leaving.Added && f.Donor.Patch == PatchWanted:
		return inspectAdded(f)
	case f.Donor.Patch == PatchWanted:
		return do(PatchDonor)
	case !f.Donor.Cordoned:
		return do(Cordon)
	case !f.Donor.Drained && f.Donor.DrainOverdue:
		return fail(DrainTimeout)
	case !f.Donor.Drained:
		return do(Evict)
	case f.Donor.Node != NodeReady || f.Donor.Power != On:
		return wait(ForDonor)
	default:
		return do(Order)
	}
}

// inspectAdded inspects the disk of an added donor before the patch, so that no patch and soak precede a refusal. The begin of
// the patch records the end of the inspection.
func inspectAdded(f Facts) Decision {
	switch {
	case f.Disk.Pod == PodFailed:
		return fail(DiskCheckFailed)
	case f.Disk.Pod == PodActive:
		return wait(ForLook)
	case f.Donor.Node != NodeReady:
		return wait(ForDonor)
	case f.Disk.Pod == PodLooked:
		return do(PatchDonor)
	}
	return do(Look)
}

// inspectFirst inspects the donor's disk before the reservation. The inspection can only refuse: the pod's report is
// unsigned.
func inspectFirst(f Facts) Decision {
	switch f.Disk.Pod {
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
