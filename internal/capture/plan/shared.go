package plan

// The steps that all courses share after the copy of the disk, and during the return of the donor.

// publish continues with a snapshot. The disk is no longer needed, so the release of the donor comes first.
func publish(f Facts) Decision {
	switch {
	case f.Snapshot == Foreign:
		return fail(SnapshotOfOtherCapture)
	case f.ProofLost:
		return fail(ProofLost)
	case f.Snapshot == Broken:
		return fail(SnapshotFailed)
	case f.Snapshot == Deleting:
		return fail(SnapshotLost)
	case f.isHeld() && !f.Returning && (f.Power == On || f.Power == Changing || f.Rebooted):
		// The start may precede the copy: the disk in the snapshot is not proven.
		return fail(DonorRestarted)
	case f.needsDisk() && f.Overdue:
		return fail(DeadlineExceeded)
	case f.needsDisk():
		return wait(ForSnapshot)
	case f.isHeld():
		return endHold(f)
	case f.Snapshot == Taken:
		return wait(ForSnapshot)
	default:
		return do(Publish)
	}
}

// leave returns the donor, or removes it, whatever became of the copy.
func leave(f Facts) Decision {
	if f.Returning && f.Power == On && !f.isBack() && f.ReadyOverdue {
		return fail(DonorNotReady)
	}
	return endHold(f)
}

// finish continues with an image version: release the donor, run the trial, promote the version.
func finish(f Facts) Decision {
	switch {
	case f.isHeld():
		return endHold(f)
	case f.Image == Foreign:
		return fail(VersionOfOtherCapture)
	case f.Image == Broken:
		return fail(ImageFailed)
	case f.Image == Deleting:
		return fail(ImageLost)
	case f.Image == Pending:
		return wait(ForImage)
	case f.Quarantined:
		return quarantined(f)
	case f.ProofLost && f.Recipe != RecipeHere:
		return fail(ProofLost)
	case f.Snapshot != Absent && f.Snapshot != Deleting && f.Snapshot != Foreign:
		return do(DeleteSnapshot)
	case f.Trial != NoTrial:
		return attempt(f)
	case f.Recipe == RecipeNewer:
		return fail(Superseded)
	case f.Recipe == RecipeChanged:
		return fail(RecipeTaken)
	case f.NeedsTrial && f.VersionVerdict != VerdictPassed && f.Recipe != RecipeHere:
		return beginAttempt(f)
	case f.Recipe == RecipeElsewhere && f.Manual && f.Stale:
		return fail(PromotionStale)
	case f.Recipe == RecipeElsewhere && f.Manual:
		return wait(ForPromotion)
	case f.Recipe == RecipeElsewhere && !f.Saved:
		return do(SaveRecipe)
	case f.Recipe == RecipeElsewhere:
		return do(Promote)
	case f.MustRetire:
		return do(Retire)
	case f.MustScaleOut:
		return do(ScaleOut)
	case f.Snapshot == Deleting:
		return wait(ForDeletion)
	case f.Pod != NoPod:
		return do(DeletePod)
	case f.Order:
		return do(DeleteOrder)
	default:
		return do(Succeed)
	}
}

// abandon ends a capture that failed or is being deleted: release the donor, then remove leftovers.
func abandon(f Facts) Decision {
	switch {
	case f.isHeld():
		return endHold(f)
	case f.Trial != NoTrial && f.Trial != TrialEnding && f.KeepsFailed && !f.Deleting:
		return wait(ForTrial)
	case f.Trial != NoTrial:
		return do(EndTrial)
	case f.Pod != NoPod:
		return do(DeletePod)
	case f.Order:
		return do(DeleteOrder)
	case f.Image == Pending, f.Image == Broken:
		return do(DeleteImage)
	case f.Snapshot == Pending, f.Snapshot == Taken, f.Snapshot == Complete, f.Snapshot == Broken:
		return do(DeleteSnapshot)
	case f.Image == Deleting, f.Snapshot == Deleting:
		return wait(ForDeletion)
	default:
		return do(Close)
	}
}

// Orphan decides for a held donor without a Prototype, as at the end of a deleted Prototype. The reservation on the
// Node is the only record of the capture, so the snapshot is removed before the reservation.
func Orphan(f Facts) Decision {
	f.Recorded = true // without a Prototype there is no second record
	d := endHold(f)
	keepsLease := d.Do == Forget && f.Power == InstanceGone && f.Node != NodeGone
	if d.Do == Release || d.Do == DeleteNode || keepsLease {
		switch f.Snapshot {
		case Pending, Taken, Complete, Broken:
			return do(DeleteSnapshot)
		case Absent, Deleting, Foreign:
		}
	}
	if keepsLease {
		return wait(ForRemoval)
	}
	return d
}

// endHold removes a leaving donor, and releases all others. A patch ends first, because the node may be about to reboot. Kamino
// starts a donor that is off, so that the patch can end, but removes an added donor.
func endHold(f Facts) Decision {
	if f.Patch == PatchUnderWay && (f.Power != Off || f.Added) {
		return do(PatchDonor)
	}
	switch {
	case f.mustRemove():
		return removeDonor(f)
	case f.Added:
		return removeAdded(f)
	}
	return returnDonor(f)
}

// returnDonor starts the donor, waits for Ready in a new boot, and undoes all protections. The record goes last, because only
// the record can restore a changed Node. The pod goes before the boot: a kubelet would restart the pod.
func returnDonor(f Facts) Decision {
	if f.Power == Off || f.Power == Changing || f.Power == On && f.MustBoot() {
		if d, open := rebootDonor(f); open {
			return d
		}
	}
	switch {
	case f.Pod != NoPod:
		return do(DeletePod)
	case f.Order && f.Reported && f.Proven:
		return do(Believe) // a report that revokes the proof must not be lost with the NodeOrder
	case f.Order:
		return do(DeleteOrder)
	case f.Lock == Theirs:
		return wait(ForHolder)
	case f.Power == InstanceGone && f.Node != NodeGone && !f.PlaceKept && !f.Recorded:
		return do(Record)
	case f.Power == InstanceGone && f.Node != NodeGone && !f.PlaceKept:
		return do(Forget) // the Lease stays as long as the Node: the instance could exist after all
	case !f.ProtectionRestored && (f.Power != InstanceGone || f.PlaceKept):
		return do(Unprotect)
	case f.Lock == Ours, !f.Restored:
		return do(Release)
	default:
		return do(Forget)
	}
}

// rebootDonor leads a stopped or touched donor through a boot. open is false once the donor is back, or after the
// timeout.
func rebootDonor(f Facts) (d Decision, open bool) {
	switch {
	case !f.Returning && (f.Power == Changing || f.Power == On && f.PoweringOff):
		return wait(ForPowerOff), true
	case !f.Returning && f.Power == On && f.Snapshot == Absent && f.Image == Absent && !f.Rebooted:
		return do(Stop), true
	case !f.Returning && f.Pod != NoPod:
		return do(DeletePod), true
	case !f.Returning && f.Order && f.Reported && f.Proven:
		return do(Believe), true
	case !f.Returning && f.Order:
		return do(DeleteOrder), true
	case !f.Returning:
		return do(Return), true
	case !f.Noted:
		return do(Note), true
	case f.Power == Off:
		return do(Start), true
	case f.Power == Changing:
		return wait(ForPowerOn), true
	case !f.isBack() && !f.ReadyOverdue:
		return wait(ForReady), true
	default:
		return Decision{}, false
	}
}
