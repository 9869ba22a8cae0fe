package plan

// The course of a donor that does not return. After the order the disk has lost its means to join: Kamino removes the
// instance, and the pool gets a replacement.

// mustRemove reports whether the donor can only be removed.
func (f Facts) mustRemove() bool { return f.Leaving.Replaced && f.Disk.Touched && f.isHeld() }

// awaitsReplacement reports whether the pool grows before the donor leaves, and has no Ready replacement yet.
func (l LeavingFacts) awaitsReplacement() bool {
	return l.Replaced && l.GrowFirst && !l.Added && l.Replacement != ReplacementReady
}

// growFirst grows the pool before the drain of a leaving donor. The donor serves meanwhile.
func growFirst(f Facts) Decision {
	switch f.Leaving.Replacement {
	case ReplacementLate:
		return fail(ReplacementNotReady)
	case ReplacementAwaited:
		return wait(ForReplacement)
	case NoReplacement, ReplacementWanted, ReplacementReady:
	}
	return do(Enlarge)
}

// removeAdded removes an added donor, also before the order. The donor may serve pods, so the drain comes first. A node that is
// down cannot end its pods: past the deadline the removal does not wait for these pods.
func removeAdded(f Facts) Decision {
	serves := !f.MustBoot() && f.Donor.Node != NodeGone && (f.Donor.Power == On || f.Donor.Power == Changing) && !f.Leaving.Removing && !f.Leaving.Decided
	switch {
	case !serves, f.Disk.Pod != NoPod, f.Disk.Order, f.Hold.Lock == Theirs:
		return removeDonor(f)
	case f.Hold.Lock != Ours:
		return do(Relock)
	case !f.Hold.Recorded:
		return do(Record)
	case !f.Donor.Cordoned:
		return do(Cordon)
	case !f.Donor.Drained && (f.Donor.Node == NodeReady || !f.Hold.Overdue):
		return do(Evict)
	}
	return removeDonor(f)
}

// removeDonor removes the pod and the NodeOrder, then the instance, the Node and the reservation. Another holder of the node
// finishes first. While the cloud refuses the removal, the reservation stays: a released node could not serve.
func removeDonor(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order && f.Disk.Reported && f.Disk.Proven:
		return do(Believe)
	case f.Disk.Order:
		return do(DeleteOrder)
	case f.Hold.Lock == Theirs:
		return wait(ForHolder)
	case !f.Hold.Recorded:
		return do(Record) // the instance's removal also deletes the Node, which may be the only record of the reservation
	case !f.Hold.Noted:
		return do(Note) // a process that knows only the Node must not release a leaving donor
	case f.Donor.Power != InstanceGone && f.Leaving.Removing:
		return wait(ForRemoval)
	case f.Donor.Power != InstanceGone, f.Leaving.PlaceKept:
		return do(Remove) // also of an instance that is already gone: the pool would keep its place unfilled
	case f.Leaving.Replacement == ReplacementWanted:
		return do(Enlarge) // before the deletion of the Node, which may be the only record of the reservation
	case f.Donor.Node == NodeReady:
		return wait(ForRemoval) // the last status of the kubelet is still Ready; only a Node that is down may be deleted
	case f.Donor.Node != NodeGone:
		return do(DeleteNode)
	default:
		return do(Forget)
	}
}
