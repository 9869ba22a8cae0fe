package plan

// The copy of a running donor's disk. The donor stays in service: only its Lease and a pod that flushes its disk name it. The
// copy is cleaned on a workshop, an instance beside the pool, which is thrown away. A pioneer is patched first, and its Node carries
// the reservation too.

// courseOfCopy is the course of a capture by copy, from the goal backwards. From the version on, both courses are equal.
var courseOfCopy = []stage{
	{"a capture that has failed, or is deleted, leaves nothing behind", Facts.ends, []part{endTrial, endWorkshop, discardCopy, endPatch, letDonorGo, removeLeftovers}},
	{"a lost record ends the capture", func(f Facts) bool { return f.Unrecorded }, []part{loseRecord}},
	{"a version is tried and promoted", Facts.hasVersion, []part{endWorkshop, letDonorGo, completeVersion, endAttempt, keepRecipe, tryVersion, promote, finish}},
	{"a proven disk becomes a version, after the workshop", Facts.hasCopy, []part{checkProvenCopy, endWorkshop, letDonorGo, publish}},
	{
		"a copy is cleaned on the workshop", Facts.hasRawCopy,
		[]part{checkHeld, endLost, checkRawCopy, openWorkshop, checkWorkshop, leaveDonor, attach, cleanCopy, checkLevel, copyCleaned},
	},
	{"a pioneer is patched, and serves again", Facts.awaitsPatch, []part{checkDonor, checkHold, patch, beginPatch}},
	{"a workshop joins, and a running donor is copied", Facts.isHeld, []part{checkHeld, endLost, openWorkshop, checkWorkshop, quiesce}},
	{"a donor is inspected and reserved", func(Facts) bool { return true }, []part{refuse, checkDonor, inspect}},
}

// CopyFacts are the copy of a running donor: the moment in which its disk is copied, and the workshop where the copy is cleaned.
type CopyFacts struct {
	// Wanted: the donor's disk is copied while the donor serves.
	Wanted bool
	// Workshop is the instance on which the copy is cleaned. LastWorkshop: so many were lost that no other is made.
	Workshop     Workshop
	LastWorkshop bool
	// Quiesce is the progress of the pod on the donor that flushes the disk.
	Quiesce Quiesce
	// Raw is the snapshot of the running disk. It holds the donor's secrets.
	Raw Artifact
	// Volume is the disk made from the raw snapshot.
	Volume Volume
	// Heard: since the proven disk is free, the kubelet of the workshop has reported in the boot of the proof. So no machine has booted from
	// the disk.
	Heard bool
	// Accepted: the cloud accepted the raw snapshot while the donor's disk was quiet.
	Accepted bool
	// Unusable: the pod on the workshop reported that the copy lacks the donor's last flush, or a complete set of packages.
	Unusable bool
	// Spent: so many copies were discarded that no other copy is made.
	Spent bool
}

// Workshop is the progress of the instance on which a copy is cleaned.
type Workshop string

const (
	NoWorkshop      Workshop = ""
	WorkshopDecided Workshop = "decided" // recorded; the cloud has no object of the workshop
	WorkshopMaking  Workshop = "making"  // the cloud is creating the instance, or its Node is not Ready
	WorkshopReady   Workshop = "ready"   // its Node is Ready, and takes no pods
	WorkshopLate    Workshop = "late"    // its Node was not Ready within the timeout
	WorkshopFailed  Workshop = "failed"  // the cloud did not build the instance, and said why
	WorkshopLost    Workshop = "lost"    // the instance was there, and is gone or off
	// WorkshopAway has left the boot in which the copy was attached, or its Node is not Ready for too long since: it may run the
	// donor's system.
	WorkshopAway   Workshop = "away"
	WorkshopEnding Workshop = "ending" // recorded: the workshop and its volume are removed
)

// Quiesce is the progress of the pod on the donor that flushes the disk.
type Quiesce string

const (
	NoQuiesce      Quiesce = ""
	QuiesceWaits   Quiesce = "waits"  // for the end of package transactions and image pulls
	QuiesceReady   Quiesce = "ready"  // the disk is quiet, and the pod waits for the engine
	QuiesceOver    Quiesce = "over"   // the moment is over, and the cloud has no snapshot of it
	QuiesceTooBusy Quiesce = "busy"   // the disk was not quiet within the timeout
	QuiesceFailed  Quiesce = "failed" // the pod cannot start, or ended otherwise
)

// Volume is the state of the disk made from a raw snapshot.
type Volume string

const (
	NoVolume       Volume = ""
	VolumeChanging Volume = "changing" // the cloud makes, attaches or detaches the disk
	VolumeFree     Volume = "free"     // attached to no instance
	VolumeAttached Volume = "attached"
	VolumeBroken   Volume = "broken" // the cloud gave up, or the disk is gone
	VolumeDeleting Volume = "deleting"
)

// awaitsPatch reports whether a held pioneer does not serve with its patches yet.
func (f Facts) awaitsPatch() bool {
	return f.isHeld() && f.Donor.Patch != NoPatch && f.Donor.Patch != PatchDone
}

// beginPatch begins the patch of a pioneer in its turn. No scale-in protection is needed: a pioneer that goes is a donor that goes.
func beginPatch(f Facts) Decision {
	if !f.Donor.Cordoned && f.Queued {
		return wait(ForNeighbour)
	}
	return do(PatchDonor)
}

// isWorkshopLost reports whether the workshop was there, and cleans no copy any more.
func (f Facts) isWorkshopLost() bool {
	return f.Copy.Workshop == WorkshopLost || f.Copy.Workshop == WorkshopAway
}

// hasRawCopy reports whether the disk of the donor was copied, and the copy is not a proven disk yet.
func (f Facts) hasRawCopy() bool {
	return f.Copy.Raw != Absent || f.Copy.Volume != NoVolume || f.Disk.Proven
}

// checkHeld ends a capture that has lost its donor or its reservation, and completes the reservation. A copy that was taken is a
// copy, whatever happens to the donor. The donor comes first: a Node that is gone shows no reservation either.
func checkHeld(f Facts) Decision {
	switch {
	case (f.Donor.Node == NodeGone || f.Donor.Power == InstanceGone) && !f.hasRawCopy():
		return fail(DonorGone)
	case !f.Hold.Overdue && f.Hold.Lock == Overwritten:
		return do(Relock)
	case f.Hold.Lock != Ours && !f.hasRawCopy():
		return fail(ReservationLost) // another client may change the donor now
	case f.Hold.Lock == Ours && !f.Hold.Recorded:
		return do(Record)
	case f.Hold.Overdue && !f.Disk.Proven:
		return fail(DeadlineExceeded)
	}
	return onward
}

// endLost ends a workshop that is lost, with the copy that was attached to it. The snapshot of the donor's disk stays, if it is there.
func endLost(f Facts) Decision {
	switch w := f.Copy.Workshop; {
	case w == WorkshopDecided, w == WorkshopMaking, w == WorkshopReady:
		return onward
	case w == WorkshopLate, w == WorkshopFailed, f.isWorkshopLost() && f.Copy.LastWorkshop:
		return checkWorkshop(f)
	}
	return endWorkshop(f)
}

// openWorkshop begins the workshop before the donor is copied: the copy with its secrets does not wait for a machine. It begins a fresh
// one after a loss, and the proof of a disk that was there counts no more.
func openWorkshop(f Facts) Decision {
	switch w := f.Copy.Workshop; {
	case w != NoWorkshop && w != WorkshopDecided:
		return onward
	case w == NoWorkshop && f.Disk.Pod != NoPod:
		return do(DeletePod) // of the inspection, or of the workshop before
	case w == NoWorkshop && f.Disk.Order:
		return do(DeleteOrder)
	case w == NoWorkshop && f.Copy.LastWorkshop:
		return fail(WorkshopGone)
	case w == NoWorkshop && !f.Hold.Recorded:
		return fail(ReservationLost)
	}
	return do(BeginWorkshop)
}

// checkWorkshop waits for the workshop. Until the proven disk is copied, only a workshop in the boot of the proof has not written to it.
func checkWorkshop(f Facts) Decision {
	switch f.Copy.Workshop {
	case WorkshopMaking:
		return wait(ForWorkshop)
	case WorkshopLate:
		return fail(WorkshopNotJoined)
	case WorkshopLost, WorkshopFailed, WorkshopEnding, NoWorkshop, WorkshopDecided:
		return fail(WorkshopGone)
	case WorkshopAway:
		return fail(WorkshopRestarted)
	case WorkshopReady:
	}
	return onward
}

// quiesce flushes the donor's disk, and copies the disk in the moment in which nothing is half written.
func quiesce(f Facts) Decision {
	switch {
	case f.Copy.Spent && f.Copy.Quiesce == NoQuiesce:
		return fail(CopyUnusable)
	case f.Copy.Quiesce == QuiesceTooBusy:
		return fail(DonorBusy)
	case f.Copy.Quiesce == QuiesceFailed:
		return fail(QuiesceNotDone)
	case f.Copy.Quiesce == QuiesceOver:
		return discard(f)
	case f.Disk.Pod != NoPod && !f.Disk.PodKnown:
		return do(Adopt)
	case f.Copy.Quiesce == QuiesceWaits:
		return wait(ForQuiet)
	case f.Copy.Quiesce == QuiesceReady:
		return do(CopyRunning)
	case f.Donor.Node != NodeReady, f.Donor.Power == Off, f.Donor.Power == Changing:
		return wait(ForDonor)
	}
	return do(QuiesceDonor)
}

// checkRawCopy discards a copy that cannot be cleaned, or ends the capture after too many copies.
func checkRawCopy(f Facts) Decision {
	switch {
	case f.Copy.Raw == Foreign:
		return fail(SnapshotOfOtherCapture)
	case f.Disk.Proven:
		return onward
	case f.Copy.Accepted && !f.Copy.Unusable && f.Copy.Raw != Broken && f.Copy.Volume != VolumeBroken &&
		f.Copy.Volume != VolumeDeleting && (own(f.Copy.Raw) && f.Copy.Raw != Deleting || f.Copy.Volume == VolumeAttached):
		return onward
	case f.Copy.Spent:
		return fail(CopyUnusable)
	}
	return discard(f)
}

// discard removes a copy that is not proven, with everything that works on it.
func discard(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order:
		return do(DeleteOrder)
	case f.Copy.Volume == VolumeDeleting:
		return wait(ForDeletion)
	case f.Copy.Volume != NoVolume:
		return do(DeleteVolume) // detaches first
	case f.Copy.Raw == Pending, f.Copy.Raw == Taken, f.Copy.Raw == Complete, f.Copy.Raw == Broken:
		return do(DeleteRawCopy)
	case f.Copy.Raw == Deleting:
		return wait(ForDeletion)
	}
	return onward
}

// leaveDonor removes pod and order from the donor, whose disk is copied.
func leaveDonor(f Facts) Decision {
	switch {
	case f.Copy.Quiesce != NoQuiesce && f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order && !f.Disk.Touched:
		return do(DeleteOrder)
	}
	return onward
}

// attach makes the volume, and attaches it to a workshop whose Node is Ready: a machine that boots with the volume could boot
// from it, and would be the donor. The raw snapshot goes as soon as the volume is attached.
func attach(f Facts) Decision {
	switch {
	case f.Disk.Proven:
		return onward
	case f.Copy.Volume == NoVolume && f.Copy.Raw != Complete:
		return wait(ForSnapshot)
	case f.Copy.Volume == NoVolume, f.Copy.Volume == VolumeFree:
		return do(AttachVolume)
	case f.Copy.Volume == VolumeChanging:
		return wait(ForVolume)
	case own(f.Copy.Raw) && f.Copy.Raw != Deleting:
		return do(DeleteRawCopy)
	}
	return onward
}

// cleanCopy generalizes the attached volume.
func cleanCopy(f Facts) Decision {
	switch {
	case f.Disk.Proven:
		return onward
	case f.Disk.Reported:
		return do(Believe)
	case f.Disk.Pod == PodFailed:
		return fail(GeneralizeFailed)
	case f.Disk.Pod != NoPod && !f.Disk.PodKnown:
		return do(Adopt)
	case !f.Disk.Touched:
		return do(Order)
	case !f.Disk.Order:
		return fail(OrderGone) // where a pod would report
	case f.Disk.Pod == NoPod:
		return do(Generalize)
	}
	return wait(ForProof)
}

// checkLevel ends a capture whose proven disk has other packages than the pioneer that was watched.
func checkLevel(f Facts) Decision {
	if f.Disk.Proven && f.Disk.LevelDiffers {
		return fail(PatchLevelChanged)
	}
	return onward
}

// copyCleaned copies the proven disk, once no machine can write to it.
func copyCleaned(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order:
		return do(DeleteOrder)
	case f.Copy.Volume == VolumeAttached:
		return do(DetachVolume)
	case f.Copy.Volume == VolumeFree && f.Copy.Heard:
		return do(TakeSnapshot)
	case f.Copy.Volume == VolumeChanging, f.Copy.Volume == VolumeFree:
		return wait(ForVolume)
	}
	return fail(CopyUnusable) // the volume is gone
}

// checkProvenCopy ends a capture whose proven disk cannot become a version.
func checkProvenCopy(f Facts) Decision {
	switch {
	case f.Image.Snapshot == Foreign:
		return fail(SnapshotOfOtherCapture)
	case f.Disk.ProofLost:
		return fail(ProofLost)
	case f.Image.Snapshot == Broken:
		return fail(SnapshotFailed)
	case f.Image.Snapshot == Deleting:
		return fail(SnapshotLost)
	case f.Image.Snapshot == Pending:
		return wait(ForSnapshot) // the volume is still read
	}
	return onward
}

// discardCopy removes the copy of a capture that failed or is deleted.
func discardCopy(f Facts) Decision {
	if f.Copy.Raw == Foreign {
		f.Copy.Raw = Absent
	}
	return discard(f)
}

// endWorkshop removes the workshop with its volume, in any state.
func endWorkshop(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod && f.Copy.Workshop != NoWorkshop:
		return do(DeletePod)
	case f.Copy.Workshop != NoWorkshop:
		return do(EndWorkshop)
	case f.Copy.Volume == VolumeDeleting:
		return wait(ForDeletion)
	case f.Copy.Volume != NoVolume:
		return do(DeleteVolume)
	}
	return onward
}

// endPatch ends the patch of a pioneer before its release: the node may be about to reboot.
func endPatch(f Facts) Decision {
	if f.isHeld() && f.Donor.Patch == PatchUnderWay {
		return do(PatchDonor)
	}
	return onward
}

// letDonorGo removes the Lease of the donor. Of a pioneer, the Node is restored first.
func letDonorGo(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.isHeld() && f.Donor.Patch != NoPatch:
		return release(f)
	case f.isHeld():
		return do(Forget)
	}
	return onward
}

// own reports whether there is an artifact of this capture.
func own(a Artifact) bool { return a != Absent && a != Foreign }
