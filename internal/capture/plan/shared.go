package plan

// The steps that every course shares: behind the copy of a disk, and on the way back.

// publish goes on from a snapshot: the disk is no longer needed, so the donor comes first.
func publish(f Facts) Decision {
	switch {
	case f.Snapshot == Foreign:
		return fail(SnapshotTaken)
	case f.ProofLost:
		return fail(ProofLost)
	case f.Snapshot == Broken:
		return fail(SnapshotFailed)
	case f.Snapshot == Deleting:
		return fail(SnapshotLost)
	case f.held() && !f.Returning && (f.Power == On || f.Power == Changing || f.Rebooted):
		// Somebody started the donor; nobody can tell whether before or after the copy was made.
		return fail(DonorRestarted)
	case f.copying() && f.Overdue:
		return fail(DeadlineExceeded)
	case f.copying():
		return wait(ForSnapshot)
	case f.held() && f.Returning && f.Power == On && !f.back() && f.Hopeless:
		return fail(DonorNotReady)
	case f.held():
		return letGo(f)
	case f.Snapshot == Taken:
		return wait(ForSnapshot)
	default:
		return do(Publish)
	}
}

// finish goes on from an image version that exists: give the donor back if that is still open, have the
// version tried, then point the pool at it.
func finish(f Facts) Decision {
	switch {
	case f.Opened && !f.opening():
		return do(CloseTrial)
	case f.held():
		return letGo(f)
	case f.Image == Foreign:
		return fail(VersionTaken)
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
	case f.Tries && f.Tried != VerdictPassed && f.Recipe != RecipeHere:
		return try(f)
	case f.Recipe == RecipeElsewhere && f.Manual && f.Stale:
		return fail(PromotionStale)
	case f.Recipe == RecipeElsewhere && f.Manual:
		return wait(ForPromotion)
	case f.Recipe == RecipeElsewhere && !f.Saved:
		return do(SaveRecipe)
	case f.Recipe == RecipeElsewhere:
		return do(Promote)
	case f.Excess:
		return do(Retire)
	case f.Growing:
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

// abandon ends a capture that failed or is being deleted: the donor first, then what is left behind.
func abandon(f Facts) Decision {
	switch {
	case f.Opened:
		return do(CloseTrial)
	case f.held():
		return letGo(f)
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

// Orphan decides on what a capture holds whose Prototype is gone: as at the end of one that is deleted. But all that
// tells of it is the reservation on the Node, so that the snapshot goes before that.
func Orphan(f Facts) Decision {
	f.Recorded = true // there is no Prototype to record it in
	d := letGo(f)
	if d.Do == Release || d.Do == DeleteNode {
		switch f.Snapshot {
		case Pending, Taken, Complete, Broken:
			return do(DeleteSnapshot)
		case Absent, Deleting, Foreign:
		}
	}
	return d
}

// letGo ends what the capture has of the donor.
func letGo(f Facts) Decision {
	if f.leaving() {
		return depart(f)
	}
	return giveBack(f)
}

// giveBack returns the donor to its owner: the power, Ready under a new boot, then every hold in the
// reverse order of taking. The Prototype's record goes last: it can restore a Node whose annotation
// somebody removed or wrote over, or that was made anew. Whoever has reserved the node meanwhile is let
// finish first. A donor that is off is started, whoever stopped it. A donor whose disk was touched, or
// that was down, must go through a boot, for parts of its identity may be gone; and the pod must be gone before that boot, for a kubelet that finds it again
// could start it again.
func giveBack(f Facts) Decision {
	if f.Power == Off || f.Power == Changing || f.Power == On && f.MustBoot() {
		if d, open := powerBack(f); open {
			return d
		}
	}
	switch {
	case f.Pod != NoPod:
		return do(DeletePod)
	case f.Order && f.Reported && f.Proven:
		return do(Believe) // what takes a proof back must not go with the order
	case f.Order:
		return do(DeleteOrder)
	case f.Lock == Theirs:
		return wait(ForHolder)
	case !f.ProtectionRestored && (f.Power != InstanceGone || f.Kept):
		return do(Unprotect)
	case f.Lock == Ours, !f.Restored:
		return do(Release)
	default:
		return do(Forget)
	}
}

// powerBack takes a donor that is off, or must leave its boot, through one. open is false once it is back,
// or is not worth waiting for any longer.
func powerBack(f Facts) (d Decision, open bool) {
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
	case !f.back() && !f.Hopeless:
		return wait(ForReady), true
	default:
		return Decision{}, false
	}
}
