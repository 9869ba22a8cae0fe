package plan

// The course of a donor that does not return. After the order the disk has lost its means to join: Kamino removes the
// instance, and the pool gets a replacement.

// mustRemove reports whether the donor can only be removed.
func (f Facts) mustRemove() bool { return f.DonorReplaced && f.Touched && f.isHeld() }

// awaitReplacement grows the pool before the drain of a leaving donor. The donor serves meanwhile.
func awaitReplacement(f Facts) Decision {
	switch f.Replacement {
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
	serves := !f.MustBoot() && f.Node != NodeGone && (f.Power == On || f.Power == Changing) && !f.Removing && !f.RemovalDecided
	switch {
	case !serves, f.Pod != NoPod, f.Order, f.Lock == Theirs:
		return removeDonor(f)
	case f.Lock != Ours:
		return do(Relock)
	case !f.Recorded:
		return do(Record)
	case !f.Cordoned:
		return do(Cordon)
	case !f.Drained && (f.Node == NodeReady || !f.Overdue):
		return do(Evict)
	}
	return removeDonor(f)
}

// removeDonor removes the pod and the NodeOrder, then the instance, the Node and the reservation. Another holder of the node
// finishes first. While the cloud refuses the removal, the reservation stays: a released node could not serve.
func removeDonor(f Facts) Decision {
	switch {
	case f.Pod != NoPod:
		return do(DeletePod)
	case f.Order && f.Reported && f.Proven:
		return do(Believe)
	case f.Order:
		return do(DeleteOrder)
	case f.Lock == Theirs:
		return wait(ForHolder)
	case !f.Recorded:
		return do(Record) // the instance's removal also deletes the Node, which may be the only record of the reservation
	case !f.Noted:
		return do(Note) // a process that knows only the Node must not release a leaving donor
	case f.Power != InstanceGone && f.Removing:
		return wait(ForRemoval)
	case f.Power != InstanceGone, f.PlaceKept:
		return do(Remove) // also of an instance that is already gone: the pool would keep its place unfilled
	case f.Replacement == ReplacementWanted:
		return do(Enlarge) // before the deletion of the Node, which may be the only record of the reservation
	case f.Node == NodeReady:
		return wait(ForRemoval) // the last status of the kubelet is still Ready; only a Node that is down may be deleted
	case f.Node != NodeGone:
		return do(DeleteNode)
	default:
		return do(Forget)
	}
}
