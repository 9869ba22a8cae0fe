package plan

// The disk of the donor after the order: run the pod, read the proof, wait for the power-off, copy the disk.

// checkDisk ends a capture whose disk cannot be copied any more.
func checkDisk(f Facts) Decision {
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
	}
	return onward
}

// believe takes over a report of the pod.
func believe(f Facts) Decision {
	if f.Disk.Reported {
		return do(Believe)
	}
	return onward
}

// copyProven copies a proven disk, once the donor is off.
func copyProven(f Facts) Decision {
	switch {
	case !f.Disk.Proven:
		return onward
	case f.Disk.LevelDiffers:
		return fail(PatchLevelChanged)
	case f.Disk.Order:
		// From here on the pod cannot revoke its proof.
		return do(DeleteOrder)
	case f.Donor.Power == Changing, f.Donor.Power == On && f.Disk.PoweringOff:
		// A cloud takes minutes to stop an instance that powers itself off in seconds.
		return wait(ForPowerOff)
	case f.Donor.Power == On:
		return do(Stop)
	}
	return do(TakeSnapshot)
}

// generalize runs the pod that generalizes the disk.
func generalize(f Facts) Decision {
	switch {
	case f.Disk.Pod == PodFailed:
		return fail(GeneralizeFailed)
	case f.Disk.Pod != NoPod && !f.Disk.PodKnown:
		return do(Adopt)
	case f.Donor.Power == Off:
		return fail(NotProven)
	case !f.Disk.Order:
		return fail(OrderGone) // where a pod would report
	case f.Disk.Pod == NoPod && f.Donor.Node == NodeGone:
		// Without a Node no kubelet runs the pod. The kubelet creates a Node only after a boot.
		return fail(DonorGone)
	case f.Disk.Pod == NoPod && f.Donor.Power == On:
		return do(Generalize)
	}
	return wait(ForProof)
}
