package plan

// From a new Prototype to a drained donor, and from there back into service. Each protection precedes the step that needs it.

// refuse ends a capture that has not begun, or lets it wait for its turn.
func refuse(f Facts) Decision {
	blocked := f.Refused || f.Hold.Lock != Unlocked
	switch {
	case f.isHeld():
		return onward
	case f.Disk.Pod != NoPod && (blocked || f.Queued):
		return do(DeletePod)
	case blocked:
		return do(Refuse)
	case f.Queued:
		return wait(ForTurn)
	}
	return onward
}

// checkDonor ends a capture whose donor does not run.
func checkDonor(f Facts) Decision {
	switch {
	case f.Donor.Node == NodeGone, f.Donor.Power == InstanceGone:
		return fail(DonorGone)
	case f.Donor.Power == Off:
		return fail(DonorStopped)
	}
	return onward
}

// inspect inspects the donor's disk before the reservation. The inspection can only refuse: the pod's report is unsigned. An
// inspection that is not used at once is repeated later.
func inspect(f Facts) Decision {
	switch {
	case f.isHeld():
		return onward
	case f.Disk.Pod == NoPod, f.Disk.Pod == PodCompared:
		return do(Look)
	case f.Disk.Pod == PodActive:
		return wait(ForLook)
	case f.Disk.Pod == PodFailed:
		return fail(DiskCheckFailed)
	}
	return do(Reserve)
}

// checkHold ends a capture that has lost its reservation, and completes the reservation.
func checkHold(f Facts) Decision {
	switch {
	case !f.Hold.Overdue && f.Hold.Lock == Overwritten:
		return do(Relock)
	case f.Hold.Lock != Ours:
		return fail(ReservationLost)
	case f.Hold.Overdue:
		return fail(DeadlineExceeded)
	case !f.Hold.Recorded:
		return do(Record)
	case f.Disk.Pod != NoPod:
		return do(DeletePod) // the inspection is complete; the generalize pod needs the name
	}
	return onward
}

// patch continues the patch of a pioneer.
func patch(f Facts) Decision {
	switch f.Donor.Patch {
	case PatchUnderWay:
		return do(PatchDonor)
	case PatchFailed:
		return fail(DonorNotPatched)
	case PatchCurrent:
		return fail(NothingToPatch)
	case NoPatch, PatchWanted, PatchDone:
	}
	return onward
}

// takeOut takes the donor out of service, under the protection of the pool. A pioneer is patched first.
func takeOut(f Facts) Decision {
	switch {
	case !f.Donor.Cordoned && f.Queued:
		return wait(ForNeighbour)
	case !f.Hold.Protected:
		return do(Protect)
	case f.Donor.Patch == PatchWanted:
		return do(PatchDonor)
	case !f.Donor.Cordoned:
		return do(Cordon)
	}
	return onward
}

// drain evicts the pods, and then orders the generalization.
func drain(f Facts) Decision {
	switch {
	case !f.Donor.Drained && f.Donor.DrainOverdue:
		return fail(DrainTimeout)
	case !f.Donor.Drained:
		return do(Evict)
	case f.Donor.Node != NodeReady || f.Donor.Power != On:
		return wait(ForDonor)
	}
	return do(Order)
}

// awaitReturn ends the wait for a started donor that does not become Ready.
func awaitReturn(f Facts) Decision {
	if f.Hold.Returning && f.Donor.Power == On && !f.isBack() && f.Hold.ReadyOverdue {
		return fail(DonorNotReady)
	}
	return onward
}

// endHold returns the donor. A patch ends first, because the node may be about to reboot. Kamino starts a donor that is off, so
// that the patch can end.
func endHold(f Facts) Decision {
	switch {
	case !f.isHeld():
		return onward
	case f.Donor.Patch == PatchUnderWay && f.Donor.Power != Off:
		return do(PatchDonor)
	}
	return returnDonor(f)
}

// returnDonor starts the donor, waits for Ready in a new boot, and undoes all protections. The record goes last, because only
// the record can restore a changed Node.
func returnDonor(f Facts) Decision {
	down := f.Donor.Power == Off || f.Donor.Power == Changing || f.Donor.Power == On && f.MustBoot()
	if down {
		if d := first(f, []part{stopDonor, startDonor}); d != onward {
			return d
		}
	}
	return first(f, []part{endOrder, release})
}

// stopDonor leaves the boot of the order. The pod goes before the next boot: a kubelet would restart the pod.
func stopDonor(f Facts) Decision {
	copied := f.hasCopy() || f.hasVersion()
	switch {
	case f.Hold.Returning:
		return onward
	case f.Donor.Power == Changing, f.Donor.Power == On && f.Disk.PoweringOff:
		return wait(ForPowerOff)
	case f.Donor.Power == On && !copied && !f.Donor.Rebooted:
		return do(Stop)
	}
	if d := endOrder(f); d != onward {
		return d
	}
	return do(Return)
}

// startDonor starts a returning donor. It leaves the decision to the release once the donor is back, or after the timeout.
func startDonor(f Facts) Decision {
	switch {
	case !f.Hold.Noted:
		return do(Note)
	case f.Donor.Power == Off:
		return do(Start)
	case f.Donor.Power == Changing:
		return wait(ForPowerOn)
	case !f.isBack() && !f.Hold.ReadyOverdue:
		return wait(ForReady)
	}
	return onward
}

// endOrder removes the pod and the NodeOrder. A report that revokes the proof must not be lost with the NodeOrder.
func endOrder(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order && f.Disk.Reported && f.Disk.Proven:
		return do(Believe)
	case f.Disk.Order:
		return do(DeleteOrder)
	}
	return onward
}

// release undoes all protections.
func release(f Facts) Decision {
	gone := f.Donor.Power == InstanceGone
	switch {
	case f.Hold.Lock == Theirs:
		return wait(ForHolder)
	case gone && f.Donor.Node != NodeGone && !f.Hold.Recorded:
		return do(Record)
	case gone && f.Donor.Node != NodeGone:
		return do(Forget) // the Lease stays as long as the Node: the instance could exist after all
	case !f.Hold.ProtectionRestored && !gone:
		return do(Unprotect)
	case f.Hold.Lock == Ours, !f.Hold.Restored:
		return do(Release)
	}
	return do(Forget)
}

// Orphan decides for a held donor without a Prototype, as at the end of a deleted Prototype. The reservation on the
// Node is the only record of the capture, so the snapshot is removed before the reservation. An instance that is off, although the
// record does not say that Kamino takes it down, was stopped by another client, and stays off.
func Orphan(f Facts) Decision {
	f.Hold.Recorded = true // without a Prototype there is no second record
	d := endHold(f)
	if (f.Donor.Power == Off || f.Donor.Power == Changing) && !f.MustBoot() && !f.Hold.Returning {
		d = first(f, []part{endOrder, release})
	}
	keepsLease := d.Do == Forget && f.Donor.Power == InstanceGone && f.Donor.Node != NodeGone
	if d.Do == Release || keepsLease {
		switch f.Image.Snapshot {
		case Pending, Taken, Complete, Broken:
			return do(DeleteSnapshot)
		case Absent, Deleting, Foreign:
		}
	}
	if keepsLease {
		return wait(ForDeletion)
	}
	return d
}
