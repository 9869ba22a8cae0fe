package plan

// model is a small model of a capture: the observable state, and the truth that only the model knows (whether disk,
// snapshot and image are generalized).
type model struct {
	f Facts

	cordonedBefore, protectedBefore bool

	// booted is the truth behind Rebooted: the instance has been started since the order.
	booted bool
	// adopted is the truth of PodKnown: the record names the pod. said is the signed report of the pod: a proof, or a
	// missing proof.
	adopted, said, retracted bool
	// proofGone: a client has removed the proof from the Prototype.
	proofGone bool

	// clean is the truth behind Proven: the donor's disk is generalized and nothing has booted it since.
	clean, cleanSnapshot, cleanImage bool

	// instant: the content of a snapshot is fixed at its request.
	instant bool

	// hung: the donor never becomes Ready again.
	hung bool

	// compares: the inspection of another node comes first.
	compares bool

	// size is the intended size of the pool, relative to the start; shrunk counts places that another client removed.
	// joined: the replacement is Ready; late: its timeout is over. locked: the cloud refuses the removal. removed:
	// Kamino removed the instance.
	size, shrunk                  int8
	joined, late, locked, removed bool
	// takenOut: the record has the replacement.
	takenOut bool

	// The record of the order and the return, and its copy in the reservation on the Node.
	touched, down, returning, noted, notedDown, notedBack bool
	// unrecorded: a hand has removed the record. disturbed: the pod was made.
	unrecorded, disturbed bool

	// patchEnd is the result of a pioneer's patch, and patched the truth of PatchDone.
	patchEnd Patch
	patched  bool

	// tried is what only worlds with a trial or a gate have.
	tried trialModel

	closed, succeeded bool
}

// returningDonors are the worlds at the begin of a capture with a returning donor.
func returningDonors() []model {
	var worlds []model
	for _, refused := range []bool{false, true} {
		for _, cordoned := range []bool{false, true} {
			for _, protected := range []bool{false, true} {
				for _, growing := range []bool{false, true} {
					w := model{cordonedBefore: cordoned, protectedBefore: protected}
					w.f = Facts{Refused: refused, Node: NodeReady, Power: On, Cordoned: cordoned, Protected: protected, MustScaleOut: growing, MustRetire: true}
					worlds = append(worlds, w.derived())
				}
			}
		}
	}
	compares := worlds[0]
	compares.compares = true
	return append(worlds, compares)
}

// instantDonors are all donors in a cloud whose snapshots are taken at once, without refused worlds and growing pools.
func instantDonors() []model {
	var worlds []model
	for _, w := range append(returningDonors(), leavingDonors()...) {
		if w.f.Refused || w.f.MustScaleOut || w.cordonedBefore != w.protectedBefore {
			continue
		}
		w.instant = true
		worlds = append(worlds, w.derived())
	}
	return worlds
}

// leavingDonors are the donors that do not return. Refused worlds and growing pools are only in returningDonors.
func leavingDonors() []model {
	var worlds []model
	for _, w := range returningDonors() {
		if w.f.Refused || w.f.MustScaleOut || w.cordonedBefore != w.protectedBefore {
			continue
		}
		for _, growFirst := range []bool{false, true} {
			w.f.DonorReplaced, w.f.GrowFirst = true, growFirst
			worlds = append(worlds, w.derived())
		}
	}
	return worlds
}

// pioneers are donors that are patched first. Refused worlds and growing pools are only in returningDonors.
func pioneers() []model {
	var worlds []model
	for _, w := range append(returningDonors(), leavingDonors()...) {
		if w.f.Refused || w.f.MustScaleOut || w.cordonedBefore != w.protectedBefore || w.f.DonorReplaced && w.cordonedBefore {
			continue
		}
		w.f.Patch, w.patchEnd = PatchWanted, PatchDone
		worlds = append(worlds, w.derived())
	}
	return worlds
}

// addedDonors are pioneers by which the pool has grown: recorded, but not locked. Some are not Ready yet.
func addedDonors() []model {
	var worlds []model
	for _, node := range []Node{NodeNotReady, NodeReady} {
		for _, instant := range []bool{false, true} {
			w := model{size: 1, instant: instant, patchEnd: PatchDone}
			w.f = Facts{Node: node, Power: On, MustRetire: true, Recorded: true, DonorReplaced: true, GrowFirst: true, Added: true, Patch: PatchWanted}
			worlds = append(worlds, w.derived())
		}
	}
	compares := worlds[0]
	compares.compares = true
	return append(worlds, compares)
}

// patch makes one step of the patch: begin with a drain, or the end.
func (w model) patch() model {
	f := &w.f
	switch {
	case f.Patch == PatchWanted:
		f.Patch, f.Cordoned, f.Drained = PatchUnderWay, true, true
	case f.Failed, f.Deleting, f.Lock != Ours, f.Node == NodeGone:
		f.Patch = PatchFailed
	default:
		f.Patch = w.patchEnd
	}
	if w.patched = f.Patch == PatchDone; w.patched {
		f.Cordoned, f.Drained = w.cordonedBefore, false
	}
	return w
}

// derived sets the facts that follow from other facts.
func (w model) derived() model {
	if w.f.Lock != Ours {
		w.noted, w.notedDown, w.notedBack = false, false, false
	}
	w.f.Touched = w.touched || w.noted
	w.f.PowerOffRecorded = w.down || w.notedDown
	w.f.Returning = w.returning || w.notedBack
	w.f.Noted = w.f.Lock != Ours || w.noted == w.f.Touched && w.notedDown == w.f.PowerOffRecorded && w.notedBack == w.f.Returning
	w.f.Unrecorded = w.unrecorded
	if w.f.Node == NodeGone && !w.f.Recorded {
		w.cordonedBefore = false // a recreated Node owes nothing to an ended or missing hold
	}
	if w.f.Power != On {
		w.f.PoweringOff = false
	}
	if w.f.Returning || !w.f.Order {
		w.adopted, w.said, w.retracted = w.adopted && !w.f.Returning && w.f.Pod != NoPod, false, false
	}
	w.f.PodKnown = w.adopted && w.f.Pod != NoPod
	w.f.Reported = w.adopted && !w.f.Outdated && (w.said && !w.f.Proven && !w.retracted && !w.proofGone || w.retracted && (w.f.Proven || w.f.Pod != PodFailed))
	w.f.Proven = w.f.Proven && !w.proofGone
	w.f.ProofLost = w.proofGone && (own(w.f.Snapshot) || own(w.f.Image))
	w.deriveTrial()
	w.f.ProtectionRestored = w.f.Protected == w.protectedBefore
	w.f.CordonRestored = w.f.Node != NodeGone && w.f.Lock == Ours && w.f.Cordoned == w.cordonedBefore
	w.f.Replacement = w.replacement()
	w.f.MustTakeOut = w.f.GrowFirst && !w.takenOut && !w.f.Touched && (w.f.Added || w.f.Replacement == ReplacementReady)
	w.f.LevelDiffers = w.f.LevelDiffers && w.f.Proven && w.patched
	w.f.Removing = w.f.Removing && w.f.Power != InstanceGone
	w.f.PlaceKept = w.f.PlaceKept && w.f.Power == InstanceGone
	w.f.Restored = w.f.Node == NodeGone || w.f.Lock == Unlocked && w.f.Cordoned == w.cordonedBefore
	if w.f.Power != On || w.f.Node == NodeGone {
		w.f.Drained = w.f.Drained || w.f.Node == NodeGone
	}
	return w
}

// replacement is the replacement of a leaving donor: with GrowFirst until the pool has one more node, otherwise until the
// pool has its old size.
func (w model) replacement() Replacement {
	gone := w.f.Power == InstanceGone && !w.f.PlaceKept
	switch {
	case !w.f.DonorReplaced, w.f.Added, w.f.GrowFirst && gone, !w.f.GrowFirst && !gone:
		return NoReplacement
	case w.f.GrowFirst && w.size < 1, !w.f.GrowFirst && w.size+w.shrunk < 0:
		return ReplacementWanted
	case w.joined:
		return ReplacementReady
	case w.late:
		return ReplacementLate
	}
	return ReplacementAwaited
}

func own(a Artifact) bool { return a != Absent && a != Foreign }

// effect is the effect of an action on the world.
func (w model) effect(d Decision) model {
	f := &w.f
	switch d.Do {
	case Wait:
	case Refuse, Close:
		w.closed = true
	case Succeed:
		w.closed, w.succeeded = true, true
	case Fail:
		f.Failed = true
	case Look:
		f.Pod, w.unrecorded = PodActive, false
	case Reserve:
		f.Lock = Ours
	case Record:
		f.Outdated = f.Outdated || f.Touched // the Node does not name the order
		f.Recorded, w.touched, w.down, w.returning, w.unrecorded = true, f.Touched, f.PowerOffRecorded, f.Returning, false
	case Relock:
		f.Lock, w.noted, w.notedDown, w.notedBack = Ours, w.touched, w.down, w.returning
	case Note:
		w.noted, w.notedDown, w.notedBack = f.Touched, f.PowerOffRecorded, f.Returning
	case TakeOut:
		w.takenOut = true
	case Protect:
		f.Protected = true
	case PatchDonor:
		w = w.patch()
	case Cordon:
		f.Cordoned = true
	case Evict:
		f.Drained = !f.Added || f.Node == NodeReady // a kubelet that is down ends no pods
	case Order:
		w.touched, w.down, w.unrecorded, f.Recorded, f.Order, f.Outdated = true, true, false, true, true, false
		f.Proven, f.PoweringOff, f.Rebooted, w.booted, w.clean = false, false, false, false, false // the report is of this boot
		w.adopted, w.said, w.retracted = false, false, false                                       // and has a key of its own
	case Generalize:
		f.Pod, w.disturbed = PodActive, true
		w.adopted, w.said, w.retracted = false, false, false
	case Adopt:
		w.adopted = true
	case Believe:
		f.Proven = !w.retracted
		if w.retracted {
			f.Pod = PodFailed
		}
	case DeleteOrder:
		f.Order = false
	case Stop:
		if f.Power == On {
			f.Power = Changing
		}
	case TakeSnapshot:
		f.Snapshot, w.cleanSnapshot = Pending, w.clean
		if w.instant {
			f.Snapshot = Taken
		}
	case DeletePod:
		f.Pod = NoPod
	case Return:
		w.touched, w.down, w.returning, w.unrecorded, f.Recorded = f.Touched, true, true, false, true
	case Start:
		w = w.boot()
	case Unprotect:
		f.Protected = w.protectedBefore
	case Forget:
		f.Recorded, w.touched, w.down, w.returning, w.unrecorded = false, f.Touched, f.PowerOffRecorded, f.Returning, false
	case Serve:
		f.Cordoned, f.Drained = w.cordonedBefore, false // pods may come
	case Release:
		f.Lock = Unlocked
		if f.Node != NodeGone {
			f.Cordoned = w.cordonedBefore
		}
	case Enlarge:
		w.size++
	case Remove:
		f.Removing, w.removed = !w.locked, true
		if f.PlaceKept && !w.locked {
			f.PlaceKept, f.Protected, w.size = false, false, w.size-1
		}
	case DeleteNode:
		f.Node, f.Lock, f.Cordoned = NodeGone, Unlocked, false
	case Publish:
		f.Image, w.cleanImage = Pending, w.cleanSnapshot
	case DeleteSnapshot:
		f.Snapshot = Deleting
	case SaveRecipe:
		f.Saved = true
	case Promote:
		f.Recipe = RecipeHere
	case Retire:
		f.MustRetire = false
	case ScaleOut:
		f.MustScaleOut = false
	case DeleteImage:
		f.Image = Deleting
	default:
		w.effectOfTrial(d.Do)
	}
	return w.derived()
}

// boot powers the donor on: its disk gets an identity again.
func (w model) boot() model {
	if w.f.Power != Off {
		return w
	}
	w.f.Power, w.clean = On, false
	w.booted = w.booted || w.f.MustBoot()
	return w
}

// progress is the change of the world without adversities. It returns the same world if no change is pending.
func (w model) progress() model {
	f := &w.f
	switch {
	case f.Pod == PodActive && (!f.isHeld() || f.Added) && !f.MustBoot() && f.Power == On && w.compares:
		f.Pod, w.compares = PodCompared, false
	case f.Pod == PodActive && (!f.isHeld() || f.Added) && !f.MustBoot() && f.Power == On:
		f.Pod = PodLooked
	case f.Pod == PodActive && f.Order && !w.said && f.Power == On && !w.booted && !f.Proven && !w.proofGone:
		w.said, f.PoweringOff, w.clean = true, true, true
	case w.clean && f.Power == On && !w.booted:
		f.Power = Off // the pod powers the donor off
	case f.Removing:
		f.Power, f.Protected, w.size = InstanceGone, false, w.size-1
	case f.Power == InstanceGone && f.Node == NodeReady:
		f.Node = NodeNotReady
	case f.Replacement == ReplacementAwaited:
		w.joined = true
	case f.Power == Changing:
		f.Power = Off
	case f.Power == On && !w.hung && f.Node != NodeGone && (f.Node != NodeReady || f.Rebooted != w.booted):
		f.Node, f.Rebooted = NodeReady, w.booted
	case f.Power == On && !w.hung && f.Node == NodeGone && w.booted:
		f.Node, f.Rebooted, f.Cordoned, f.Lock = NodeReady, true, false, Unlocked // the kubelet registers the Node again
	case f.Lock == Theirs:
		f.Lock = Unlocked // the state before the capture is cordoned
	case f.Snapshot == Pending, f.Snapshot == Taken:
		f.Snapshot = Complete
	case f.Snapshot == Deleting:
		f.Snapshot = Absent
	case f.Image == Pending:
		f.Image = Complete
	case f.Image == Deleting:
		f.Image = Absent
	case f.Queued:
		f.Queued = false
	case w.progressOfTrial():
	case f.Power == Off && f.Node == NodeReady:
		f.Node = NodeNotReady // noticed late: until now the node's last word stood
	}
	return w.derived()
}

// sole reports whether the reservation on the Node is the only record of the hold.
func (w model) sole() bool { return w.f.Lock == Ours && w.unrecorded }

func notReady(n Node) Node {
	if n == NodeGone {
		return n
	}
	return NodeNotReady
}

// adding appends the world after an adversity, if the world has changed.
func (w model) adding(out *[]model) func(change func(*model)) {
	return func(change func(*model)) {
		next := w
		change(&next)
		next = next.derived()
		if next != w {
			*out = append(*out, next)
		}
	}
}

// adverse are all adversities from outside.
func (w model) adverse() []model {
	if w.tried.published {
		return w.adverseToTrial()
	}
	var out []model
	add := w.adding(&out)
	add(func(n *model) { n.f.Deleting = true })
	add(func(n *model) { n.f.Failed = false }) // the status is lost
	add(func(n *model) { n.f.Queued = !n.f.MustBoot() })
	add(func(n *model) { // what was in order when the pod began to look no longer is
		n.f.Refused = n.f.Refused || !n.f.isHeld() && n.f.Pod != NoPod && n.f.Snapshot == Absent && n.f.Image == Absent
	})
	add(func(n *model) {
		if !n.sole() {
			n.f.Node, n.f.Lock, n.f.Cordoned = NodeGone, Unlocked, false
		}
	})
	add(func(n *model) { // another client deletes the instance with its place
		if n.sole() && n.f.DonorReplaced && !n.f.GrowFirst {
			return // a place is missing without a record
		}
		if n.f.Power != InstanceGone || n.f.PlaceKept {
			n.size, n.shrunk = n.size-1, n.shrunk+1
		}
		n.f.Node, n.f.Lock, n.f.Cordoned = NodeGone, Unlocked, false
		n.f.Power, n.f.Protected, n.f.PlaceKept = InstanceGone, false, false
	})
	add(func(n *model) { // the cloud takes the instance, and the pool keeps the place
		n.f.PlaceKept = n.f.PlaceKept || n.f.Power != InstanceGone
		n.f.Power = InstanceGone
	})
	if w.f.DonorReplaced {
		add(func(n *model) { n.late = n.f.Replacement == ReplacementAwaited })
		add(func(n *model) { n.locked = n.f.Power != InstanceGone && !n.f.Removing })
		add(func(n *model) { // an autoscaler takes the replacement again
			if n.f.Replacement == ReplacementReady {
				n.size, n.shrunk, n.joined, n.takenOut = n.size-1, n.shrunk+1, false, false
			}
		})
	}
	for _, over := range []Lock{Unlocked, Overwritten, Theirs} {
		add(func(n *model) { // a hand removes the annotation, or writes over it
			if n.f.Lock == Ours && !n.sole() && (over == Unlocked || n.f.Recorded) {
				n.f.Lock = over
			}
		})
	}
	add(func(n *model) { // a hand removes the record
		if n.f.Lock == Ours || !n.f.isHeld() && (n.touched || n.down) {
			n.f.Recorded, n.touched, n.down, n.returning, n.unrecorded = false, false, false, false, true
			if n.f.Patch != NoPatch {
				n.f.Patch, n.patched = PatchWanted, false
			}
		}
	})
	if w.f.Patch != NoPatch {
		for _, end := range []Patch{PatchFailed, PatchCurrent} {
			add(func(n *model) {
				if n.f.Patch == PatchUnderWay {
					n.patchEnd = end
				}
			})
		}
		add(func(n *model) { n.f.LevelDiffers = n.f.Snapshot == Absent && n.f.Image == Absent })
	}
	add(func(n *model) { n.f.Node = notReady(n.f.Node) })
	add(func(n *model) {
		// Another client starts the donor. The kubelet reports the new boot before the donor can be off again: start
		// and stop take longer than the validity of a proof (package capture).
		if n.f.Power == Off {
			*n = n.boot()
			if n.booted && (n.f.Proven || n.said) && !n.f.Returning {
				n.f.Rebooted = true
			}
		}
	})
	add(func(n *model) { // a stranger stops it
		if n.f.Power == On {
			n.f.Power = Off
		}
	})
	add(func(n *model) { n.hung = n.f.MustBoot() || n.f.Added })
	add(func(n *model) { n.f.PoweringOff = false }) // the announced power-off does not follow
	add(func(n *model) {
		if n.f.Pod == PodActive {
			n.f.Pod = PodFailed
		}
	})
	add(func(n *model) { n.f.Pod = NoPod }) // a client deletes the pod
	add(func(n *model) {
		// Or the NodeOrder is removed, or a pass created a NodeOrder and crashed. A client that can delete NodeOrders can also
		// write proofs: the model has no removal while the pod revokes its proof.
		if !n.retracted {
			n.f.Order = n.f.isHeld() && !n.f.MustBoot() && !n.f.Order
		}
	})
	add(func(n *model) { // the pod has no confirmation of the proof, revokes the proof and continues
		if n.said && n.f.Order && n.f.Power == On && !n.booted {
			n.retracted, n.clean = true, false
		}
	})
	add(func(n *model) { n.proofGone = n.f.Proven || own(n.f.Snapshot) || own(n.f.Image) })
	add(func(n *model) { n.f.Overdue = n.f.isHeld() })
	add(func(n *model) { n.f.Overdue, n.f.ReadyOverdue = n.f.isHeld(), n.f.isHeld() })
	add(func(n *model) { n.f.DrainOverdue = n.f.isHeld() && !n.f.Drained })
	add(func(n *model) {
		if n.f.Snapshot == Pending || n.f.Snapshot == Taken {
			n.f.Snapshot = Broken
		}
	})
	add(func(n *model) {
		if n.f.Snapshot == Taken || n.f.Snapshot == Complete {
			n.f.Snapshot = Deleting
		}
	})
	add(func(n *model) {
		if n.f.Image == Pending {
			n.f.Image = Broken
		}
	})
	add(func(n *model) { n.f.Quarantined = n.f.Image == Complete })
	add(func(n *model) {
		if n.f.Image == Complete {
			n.f.Recipe = RecipeNewer
		}
	})
	add(func(n *model) {
		if n.f.Image == Complete && n.f.Recipe == RecipeElsewhere {
			n.f.Recipe = RecipeChanged
		}
	})
	return out
}
