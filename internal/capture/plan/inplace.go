package plan

// From nothing to the copy of a donor's disk, in place: it is the same for a donor that returns and for one that leaves, but
// that the pool has a successor for the latter first.

// inPlace goes on where there is no copy yet.
func inPlace(f Facts) Decision {
	if f.MustBoot() {
		return snapshot(f)
	}
	return prepare(f)
}

// snapshot goes on from the order to generalize: run the pod, see the proof, see the power off, copy the disk.
func snapshot(f Facts) Decision {
	switch {
	case !f.held(), f.Returning, !f.Touched:
		return fail(Interrupted)
	case f.Power == InstanceGone:
		return fail(DonorGone)
	case f.Rebooted:
		return fail(DonorRestarted)
	case f.Overdue:
		return fail(DeadlineExceeded)
	case !f.Recorded:
		// The Node knows of the order, and not whether the way back had begun.
		return fail(RecordLost)
	case !f.Noted:
		return do(Note)
	case f.Outdated:
		return fail(OrderOutdated)
	case f.Reported:
		return do(Believe)
	case f.Proven && f.Order:
		// From here on the pod cannot take its proof back.
		return do(DeleteOrder)
	case f.Proven && (f.Power == Changing || f.Power == On && f.PoweringOff):
		// A cloud takes minutes to stop what stops by itself in a moment.
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
		// No kubelet would run the pod, and none reports before the machine has booted.
		return fail(DonorGone)
	case f.Pod == NoPod && f.Power == On:
		return do(Generalize)
	default:
		return wait(ForProof)
	}
}

// prepare goes from nothing to a drained donor, each hold before what it holds for. A look that is not used at once is
// made again when it is.
func prepare(f Facts) Decision {
	switch {
	case !f.held() && f.Pod != NoPod && (f.Refused || f.Lock != Unlocked || f.Queued):
		return do(DeletePod)
	case !f.held() && (f.Refused || f.Lock != Unlocked):
		return do(Refuse)
	case !f.held() && f.Queued:
		return wait(ForTurn)
	case f.Node == NodeGone || f.Power == InstanceGone:
		return fail(DonorGone)
	case f.Power == Off:
		return fail(DonorStopped)
	case !f.held():
		return lookFirst(f)
	case f.Lock == Stray && !f.Overdue:
		return do(Relock)
	case f.Lock != Ours:
		return fail(ReservationLost)
	case f.Overdue:
		return fail(DeadlineExceeded)
	case !f.Recorded:
		return do(Record)
	case f.Pod != NoPod:
		return do(DeletePod) // it has looked; the generalize pod will have its name
	case !f.Cordoned && f.Queued:
		return wait(ForNeighbour)
	case f.Leaves && f.GrowFirst && f.Replacement != ReplacementReady:
		return succeed(f)
	case !f.Protected:
		return do(Protect)
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

// lookFirst has a pod look at the donor's disk before anything is taken. It can only refuse: what it finds is its own
// word, and proves nothing.
func lookFirst(f Facts) Decision {
	switch f.Pod {
	case NoPod:
		return do(Look)
	case PodActive:
		return wait(ForLook)
	case PodFailed:
		return fail(LookFailed)
	case PodLooked:
	}
	return do(Reserve)
}
