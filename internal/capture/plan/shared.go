package plan

// The steps that all courses share after the copy of the disk, and during the return of the donor.

// publish continues with a snapshot. The disk is no longer needed, so the release of the donor comes first.
func publish(f Facts) Decision {
	switch {
	case f.Image.Snapshot == Foreign:
		return fail(SnapshotOfOtherCapture)
	case f.Disk.ProofLost:
		return fail(ProofLost)
	case f.Image.Snapshot == Broken:
		return fail(SnapshotFailed)
	case f.Image.Snapshot == Deleting:
		return fail(SnapshotLost)
	case f.isHeld() && !f.Hold.Returning && (f.Donor.Power == On || f.Donor.Power == Changing || f.Donor.Rebooted):
		// The start may precede the copy: the disk in the snapshot is not proven.
		return fail(DonorRestarted)
	case f.needsDisk() && f.Hold.Overdue:
		return fail(DeadlineExceeded)
	case f.needsDisk():
		return wait(ForSnapshot)
	case f.isHeld():
		return endHold(f)
	case f.Image.Snapshot == Taken:
		return wait(ForSnapshot)
	default:
		return do(Publish)
	}
}

// leave returns the donor, or removes it, whatever became of the copy.
func leave(f Facts) Decision {
	if f.Hold.Returning && f.Donor.Power == On && !f.isBack() && f.Hold.ReadyOverdue {
		return fail(DonorNotReady)
	}
	return endHold(f)
}

// finish continues with an image version: release the donor, run the trial, promote the version.
func finish(f Facts) Decision {
	switch {
	case f.isHeld():
		return endHold(f)
	case f.Image.Version == Foreign:
		return fail(VersionOfOtherCapture)
	case f.Image.Version == Broken:
		return fail(ImageFailed)
	case f.Image.Version == Deleting:
		return fail(ImageLost)
	case f.Image.Version == Pending:
		return wait(ForImage)
	case f.Image.Quarantined:
		return quarantined(f)
	case f.Disk.ProofLost && f.Promotion.Recipe != RecipeHere:
		return fail(ProofLost)
	case f.Image.Snapshot != Absent && f.Image.Snapshot != Deleting && f.Image.Snapshot != Foreign:
		return do(DeleteSnapshot)
	case f.Trial.Progress != NoTrial:
		return attempt(f)
	case f.Promotion.Recipe == RecipeNewer:
		return fail(Superseded)
	case f.Promotion.Recipe == RecipeChanged:
		return fail(RecipeTaken)
	case f.Trial.Needed && f.Trial.Verdict != VerdictPassed && f.Promotion.Recipe != RecipeHere:
		return beginAttempt(f)
	case f.Promotion.Recipe == RecipeElsewhere && f.Promotion.Manual && f.Promotion.Stale:
		return fail(PromotionStale)
	case f.Promotion.Recipe == RecipeElsewhere && f.Promotion.Manual:
		return wait(ForPromotion)
	case f.Promotion.Recipe == RecipeElsewhere && !f.Promotion.Saved:
		return do(SaveRecipe)
	case f.Promotion.Recipe == RecipeElsewhere:
		return do(Promote)
	case f.Promotion.MustRetire:
		return do(Retire)
	case f.Promotion.MustScaleOut:
		return do(ScaleOut)
	case f.Image.Snapshot == Deleting:
		return wait(ForDeletion)
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order:
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
	case f.Trial.Progress != NoTrial && f.Trial.Progress != TrialEnding && f.Trial.KeepsFailed && !f.Deleting:
		return wait(ForTrial)
	case f.Trial.Progress != NoTrial:
		return do(EndTrial)
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order:
		return do(DeleteOrder)
	case f.Image.Version == Pending, f.Image.Version == Broken:
		return do(DeleteImage)
	case f.Image.Snapshot == Pending, f.Image.Snapshot == Taken, f.Image.Snapshot == Complete, f.Image.Snapshot == Broken:
		return do(DeleteSnapshot)
	case f.Image.Version == Deleting, f.Image.Snapshot == Deleting:
		return wait(ForDeletion)
	default:
		return do(Close)
	}
}

// Orphan decides for a held donor without a Prototype, as at the end of a deleted Prototype. The reservation on the
// Node is the only record of the capture, so the snapshot is removed before the reservation.
func Orphan(f Facts) Decision {
	f.Hold.Recorded = true // without a Prototype there is no second record
	d := endHold(f)
	keepsLease := d.Do == Forget && f.Donor.Power == InstanceGone && f.Donor.Node != NodeGone
	if d.Do == Release || d.Do == DeleteNode || keepsLease {
		switch f.Image.Snapshot {
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
	if f.Donor.Patch == PatchUnderWay && (f.Donor.Power != Off || f.Leaving.Added) {
		return do(PatchDonor)
	}
	switch {
	case f.mustRemove():
		return removeDonor(f)
	case f.Leaving.Added:
		return removeAdded(f)
	}
	return returnDonor(f)
}

// returnDonor starts the donor, waits for Ready in a new boot, and undoes all protections. The record goes last, because only
// the record can restore a changed Node. The pod goes before the boot: a kubelet would restart the pod.
func returnDonor(f Facts) Decision {
	if f.Donor.Power == Off || f.Donor.Power == Changing || f.Donor.Power == On && f.MustBoot() {
		if d, open := rebootDonor(f); open {
			return d
		}
	}
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order && f.Disk.Reported && f.Disk.Proven:
		return do(Believe) // a report that revokes the proof must not be lost with the NodeOrder
	case f.Disk.Order:
		return do(DeleteOrder)
	case f.Hold.Lock == Theirs:
		return wait(ForHolder)
	case f.Donor.Power == InstanceGone && f.Donor.Node != NodeGone && !f.Leaving.PlaceKept && !f.Hold.Recorded:
		return do(Record)
	case f.Donor.Power == InstanceGone && f.Donor.Node != NodeGone && !f.Leaving.PlaceKept:
		return do(Forget) // the Lease stays as long as the Node: the instance could exist after all
	case !f.Hold.ProtectionRestored && (f.Donor.Power != InstanceGone || f.Leaving.PlaceKept):
		return do(Unprotect)
	case f.Hold.Lock == Ours, !f.Hold.Restored:
		return do(Release)
	default:
		return do(Forget)
	}
}

// rebootDonor leads a stopped or touched donor through a boot. open is false once the donor is back, or after the
// timeout.
func rebootDonor(f Facts) (d Decision, open bool) {
	switch {
	case !f.Hold.Returning && (f.Donor.Power == Changing || f.Donor.Power == On && f.Disk.PoweringOff):
		return wait(ForPowerOff), true
	case !f.Hold.Returning && f.Donor.Power == On && f.Image.Snapshot == Absent && f.Image.Version == Absent && !f.Donor.Rebooted:
		return do(Stop), true
	case !f.Hold.Returning && f.Disk.Pod != NoPod:
		return do(DeletePod), true
	case !f.Hold.Returning && f.Disk.Order && f.Disk.Reported && f.Disk.Proven:
		return do(Believe), true
	case !f.Hold.Returning && f.Disk.Order:
		return do(DeleteOrder), true
	case !f.Hold.Returning:
		return do(Return), true
	case !f.Hold.Noted:
		return do(Note), true
	case f.Donor.Power == Off:
		return do(Start), true
	case f.Donor.Power == Changing:
		return wait(ForPowerOn), true
	case !f.isBack() && !f.Hold.ReadyOverdue:
		return wait(ForReady), true
	default:
		return Decision{}, false
	}
}
