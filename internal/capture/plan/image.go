package plan

// The copy of the donor's disk, and the version made from the copy.

// checkCopy ends a capture whose copy cannot become a version.
func checkCopy(f Facts) Decision {
	switch {
	case f.Image.Snapshot == Foreign:
		return fail(SnapshotOfOtherCapture)
	case f.Disk.ProofLost:
		return fail(ProofLost)
	case f.Image.Snapshot == Broken:
		return fail(SnapshotFailed)
	case f.Image.Snapshot == Deleting:
		return fail(SnapshotLost)
	case f.isHeld() && (f.Donor.Power == On || f.Donor.Power == Changing || f.Donor.Rebooted):
		// The start may precede the copy: the disk in the snapshot is not proven.
		return fail(DonorRestarted)
	}
	return onward
}

// awaitCopy waits while the copy needs the donor's disk.
func awaitCopy(f Facts) Decision {
	switch {
	case f.needsDisk() && f.Hold.Overdue:
		return fail(DeadlineExceeded)
	case f.needsDisk():
		return wait(ForSnapshot)
	}
	return onward
}

// publish makes a version of the copy, after the release of the donor.
func publish(f Facts) Decision {
	if f.Image.Snapshot == Taken {
		return wait(ForSnapshot)
	}
	return do(Publish)
}

// completeVersion waits for the version, and removes the copy. A version that cannot be used ends the capture.
func completeVersion(f Facts) Decision {
	switch {
	case f.Image.Version == Foreign:
		return fail(VersionOfOtherCapture)
	case f.Image.Version == Broken:
		return fail(ImageFailed)
	case f.Image.Version == Deleting:
		return fail(ImageLost)
	case f.Image.Version == Pending:
		return wait(ForImage)
	case f.Image.Quarantined && f.Trial.Verdict == VerdictFailed:
		return fail(TrialFailed)
	case f.Image.Quarantined:
		return fail(Quarantined)
	case f.Disk.ProofLost && f.Promotion.Recipe != RecipeHere:
		return fail(ProofLost)
	case f.Image.Snapshot != Absent && f.Image.Snapshot != Deleting && f.Image.Snapshot != Foreign:
		return do(DeleteSnapshot)
	}
	return onward
}
