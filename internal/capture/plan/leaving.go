package plan

// The course of a donor that does not return. Up to the order it is that of any other; from then on its disk has nothing
// left by which it could join, so that its instance goes, and its place is somebody else's.

// leaving tells whether the donor can only be removed.
func (f Facts) leaving() bool { return f.Leaves && f.Touched && f.held() }

// succeed has the pool grow before the donor is taken. The donor serves meanwhile.
func succeed(f Facts) Decision {
	switch f.Replacement {
	case ReplacementLate:
		return fail(SuccessorFailed)
	case ReplacementAwaited:
		return wait(ForReplacement)
	case NoReplacement, ReplacementWanted, ReplacementReady:
	}
	return do(Enlarge)
}

// depart removes the donor: what speaks for it first, then its instance, its Node, and the hold. Whoever else has reserved
// the node is let finish before. Where the cloud does not let the instance go, the hold stays until somebody sees to that:
// given back, it would be a node that nobody can use.
func depart(f Facts) Decision {
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
		return do(Record) // the Node, which may be all that knows of the hold, goes with the instance
	case !f.Noted:
		return do(Note) // who knows of the Node alone must not give back what goes
	case f.Power != InstanceGone && f.Removing:
		return wait(ForRemoval)
	case f.Power != InstanceGone, f.Kept:
		return do(Remove) // also of one that went by itself: its place is left, which the pool would keep for nobody
	case f.Replacement == ReplacementWanted:
		return do(Enlarge) // before the Node goes, which may be all that knows of the hold
	case f.Node == NodeReady:
		return wait(ForRemoval) // its last word stands yet, and only a Node that is down may be deleted
	case f.Node != NodeGone:
		return do(DeleteNode)
	default:
		return do(Forget)
	}
}
