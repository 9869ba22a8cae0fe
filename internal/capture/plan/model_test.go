package plan

import (
	"slices"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

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

	// kept: the capture has left the Lease of a donor without an instance to the end of its Node.
	kept bool

	// compares: the inspection of another node comes first.
	compares bool

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

// patch makes one step of the patch: begin with a drain, or the end.
func (w model) patch() model {
	f := &w.f
	switch {
	case f.Donor.Patch == PatchWanted:
		f.Donor.Patch, f.Donor.Cordoned, f.Donor.Drained = PatchUnderWay, true, true
	case f.Failed, f.Deleting, f.Hold.Lock != Ours, f.Donor.Node == NodeGone:
		f.Donor.Patch = PatchFailed
	default:
		f.Donor.Patch = w.patchEnd
	}
	if w.patched = f.Donor.Patch == PatchDone; w.patched {
		f.Donor.Cordoned, f.Donor.Drained = w.cordonedBefore, false
	}
	return w
}

// derived sets the facts that follow from other facts.
func (w model) derived() model {
	if w.f.Hold.Lock != Ours {
		w.noted, w.notedDown, w.notedBack = false, false, false
	}
	w.f.Disk.Touched = w.touched || w.noted
	w.f.Donor.MustLeaveBoot = w.down || w.notedDown
	w.f.Hold.Returning = w.returning || w.notedBack
	w.f.Hold.Noted = w.f.Hold.Lock != Ours ||
		w.noted == w.f.Disk.Touched && w.notedDown == w.f.Donor.MustLeaveBoot && w.notedBack == w.f.Hold.Returning
	w.f.Unrecorded = w.unrecorded
	if w.f.Donor.Node == NodeGone && !w.f.Hold.Recorded {
		w.cordonedBefore = false // a recreated Node owes nothing to an ended or missing hold
	}
	if w.f.Donor.Power != On {
		w.f.Disk.PoweringOff = false
	}
	if w.f.Hold.Returning || !w.f.Disk.Order {
		w.adopted, w.said, w.retracted = w.adopted && !w.f.Hold.Returning && w.f.Disk.Pod != NoPod, false, false
	}
	w.f.Disk.PodKnown = w.adopted && w.f.Disk.Pod != NoPod
	w.f.Disk.Reported = w.adopted && !w.f.Disk.Outdated &&
		(w.said && !w.f.Disk.Proven && !w.retracted && !w.proofGone || w.retracted && (w.f.Disk.Proven || w.f.Disk.Pod != PodFailed))
	w.f.Disk.Proven = w.f.Disk.Proven && !w.proofGone
	w.f.Disk.ProofLost = w.proofGone && (own(w.f.Image.Snapshot) || own(w.f.Image.Version))
	w.deriveTrial()
	w.f.Hold.ProtectionRestored = w.f.Hold.Protected == w.protectedBefore
	w.f.Hold.CordonRestored = w.f.Donor.Node != NodeGone && w.f.Hold.Lock == Ours && w.f.Donor.Cordoned == w.cordonedBefore
	w.f.Disk.LevelDiffers = w.f.Disk.LevelDiffers && w.f.Disk.Proven && w.patched
	w.f.Hold.Restored = w.f.Donor.Node == NodeGone || w.f.Hold.Lock == Unlocked && w.f.Donor.Cordoned == w.cordonedBefore
	if w.f.Donor.Power != On || w.f.Donor.Node == NodeGone {
		w.f.Donor.Drained = w.f.Donor.Drained || w.f.Donor.Node == NodeGone
	}
	return w
}

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
		f.Disk.Pod, w.unrecorded = PodActive, false
	case Reserve:
		f.Hold.Lock = Ours
	case Record:
		f.Disk.Outdated = f.Disk.Outdated || f.Disk.Touched // the Node does not name the order
		f.Hold.Recorded, w.touched, w.down, w.returning, w.unrecorded = true, f.Disk.Touched, f.Donor.MustLeaveBoot, f.Hold.Returning, false
	case Relock:
		f.Hold.Lock, w.noted, w.notedDown, w.notedBack = Ours, w.touched, w.down, w.returning
	case Note:
		w.noted, w.notedDown, w.notedBack = f.Disk.Touched, f.Donor.MustLeaveBoot, f.Hold.Returning
	case Protect:
		f.Hold.Protected = true
	case PatchDonor:
		w = w.patch()
	case Cordon:
		f.Donor.Cordoned = true
	case Evict:
		f.Donor.Drained = true
	case Order:
		w.touched, w.down, w.unrecorded, f.Hold.Recorded, f.Disk.Order, f.Disk.Outdated = true, true, false, true, true, false
		f.Disk.Proven, f.Disk.PoweringOff, f.Donor.Rebooted, w.booted, w.clean = false, false, false, false, false // the report is of this boot
		w.adopted, w.said, w.retracted = false, false, false                                                       // and has a key of its own
	case Generalize:
		f.Disk.Pod, w.disturbed = PodActive, true
		w.adopted, w.said, w.retracted = false, false, false
	case Adopt:
		w.adopted = true
	case Believe:
		f.Disk.Proven = !w.retracted
		if w.retracted {
			f.Disk.Pod = PodFailed
		}
	case DeleteOrder:
		f.Disk.Order = false
	case Stop:
		if f.Donor.Power == On {
			f.Donor.Power = Changing
		}
	case TakeSnapshot:
		f.Image.Snapshot, w.cleanSnapshot = Pending, w.clean
		if w.instant {
			f.Image.Snapshot = Taken
		}
	case DeletePod:
		f.Disk.Pod = NoPod
	case Return:
		w.touched, w.down, w.returning, w.unrecorded, f.Hold.Recorded = f.Disk.Touched, true, true, false, true
	case Start:
		w = w.boot()
	case Unprotect:
		f.Hold.Protected = w.protectedBefore
	case Forget:
		f.Hold.Recorded, w.touched, w.down, w.returning, w.unrecorded = false, f.Disk.Touched, f.Donor.MustLeaveBoot, f.Hold.Returning, false
		if f.Donor.Power == InstanceGone && f.Donor.Node != NodeGone {
			f.Hold.Lock, w.kept = Unlocked, true
		}
	case Serve:
		f.Donor.Cordoned, f.Donor.Drained = w.cordonedBefore, false // pods may come
	case Release:
		f.Hold.Lock = Unlocked
		if f.Donor.Node != NodeGone {
			f.Donor.Cordoned = w.cordonedBefore
		}
	case Publish:
		f.Image.Version, w.cleanImage = Pending, w.cleanSnapshot
	case DeleteSnapshot:
		f.Image.Snapshot = Deleting
	case SaveRecipe:
		f.Promotion.Saved = true
	case Promote:
		f.Promotion.Recipe = RecipeHere
	case Retire:
		f.Promotion.MustRetire = false
	case DeleteImage:
		f.Image.Version = Deleting
	default:
		w.effectOfTrial(d.Do)
	}
	return w.derived()
}

// boot powers the donor on: its disk gets an identity again.
func (w model) boot() model {
	if w.f.Donor.Power != Off {
		return w
	}
	w.f.Donor.Power, w.clean = On, false
	w.booted = w.booted || w.f.MustBoot()
	return w
}

// progress is the change of the world without adversities. It returns the same world if no change is pending.
func (w model) progress() model {
	f := &w.f
	switch {
	case f.Disk.Pod == PodActive && !f.isHeld() && !f.MustBoot() && f.Donor.Power == On && w.compares:
		f.Disk.Pod, w.compares = PodCompared, false
	case f.Disk.Pod == PodActive && !f.isHeld() && !f.MustBoot() && f.Donor.Power == On:
		f.Disk.Pod = PodLooked
	case f.Disk.Pod == PodActive && f.Disk.Order && !w.said && f.Donor.Power == On && !w.booted && !f.Disk.Proven && !w.proofGone:
		w.said, f.Disk.PoweringOff, w.clean = true, true, true
	case w.clean && f.Donor.Power == On && !w.booted:
		f.Donor.Power = Off // the pod powers the donor off
	case f.Donor.Power == InstanceGone && f.Donor.Node == NodeReady:
		f.Donor.Node = NodeNotReady
	case f.Donor.Power == Changing:
		f.Donor.Power = Off
	case f.Donor.Power == On && !w.hung && f.Donor.Node != NodeGone && (f.Donor.Node != NodeReady || f.Donor.Rebooted != w.booted):
		f.Donor.Node, f.Donor.Rebooted = NodeReady, w.booted
	case f.Donor.Power == On && !w.hung && f.Donor.Node == NodeGone && w.booted:
		f.Donor.Node, f.Donor.Rebooted, f.Donor.Cordoned, f.Hold.Lock = NodeReady, true, false, Unlocked // the kubelet registers the Node again
	case f.Hold.Lock == Theirs:
		f.Hold.Lock = Unlocked // the state before the capture is cordoned
	case f.Image.Snapshot == Pending, f.Image.Snapshot == Taken:
		f.Image.Snapshot = Complete
	case f.Image.Snapshot == Deleting:
		f.Image.Snapshot = Absent
	case f.Image.Version == Pending:
		f.Image.Version = Complete
	case f.Image.Version == Deleting:
		f.Image.Version = Absent
	case f.Queued:
		f.Queued = false
	case w.progressOfTrial():
	case f.Donor.Power == Off && f.Donor.Node == NodeReady:
		f.Donor.Node = NodeNotReady // noticed late: until now the node's last word stood
	}
	return w.derived()
}

// later is the world after a long time in which nothing moves: deadlines are over.
func (w model) later() model {
	overdue, held := w.f.Hold.Overdue, w.f.isHeld()
	w.f.Disk.PoweringOff = false
	w.f.Hold.Overdue, w.f.Hold.ReadyOverdue = held, held && overdue
	return w
}

// sole reports whether the reservation on the Node is the only record of the hold.
func (w model) sole() bool { return w.f.Hold.Lock == Ours && w.unrecorded }

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
		n.f.Refused = n.f.Refused || !n.f.isHeld() && n.f.Disk.Pod != NoPod && n.f.Image.Snapshot == Absent && n.f.Image.Version == Absent
	})
	add(func(n *model) {
		if !n.sole() {
			n.f.Donor.Node, n.f.Hold.Lock, n.f.Donor.Cordoned = NodeGone, Unlocked, false
		}
	})
	add(func(n *model) { // another client deletes the instance with its Node
		n.f.Donor.Node, n.f.Hold.Lock, n.f.Donor.Cordoned = NodeGone, Unlocked, false
		n.f.Donor.Power, n.f.Hold.Protected = InstanceGone, false
	})
	add(func(n *model) { n.f.Donor.Power, n.f.Hold.Protected = InstanceGone, false }) // the cloud takes the instance
	for _, over := range []Lock{Unlocked, Overwritten, Theirs} {
		add(func(n *model) { // a hand removes the annotation, or writes over it
			if n.f.Hold.Lock == Ours && !n.sole() && (over == Unlocked || n.f.Hold.Recorded) {
				n.f.Hold.Lock = over
			}
		})
	}
	add(func(n *model) { // a hand removes the record
		if n.f.Hold.Lock == Ours || !n.f.isHeld() && (n.touched || n.down) {
			n.f.Hold.Recorded, n.touched, n.down, n.returning, n.unrecorded = false, false, false, false, true
			if n.f.Donor.Patch != NoPatch {
				n.f.Donor.Patch, n.patched = PatchWanted, false
			}
		}
	})
	if w.f.Donor.Patch != NoPatch {
		for _, end := range []Patch{PatchFailed, PatchCurrent} {
			add(func(n *model) {
				if n.f.Donor.Patch == PatchUnderWay {
					n.patchEnd = end
				}
			})
		}
		add(func(n *model) { n.f.Disk.LevelDiffers = n.f.Image.Snapshot == Absent && n.f.Image.Version == Absent })
	}
	add(func(n *model) { n.f.Donor.Node = notReady(n.f.Donor.Node) })
	add(func(n *model) {
		// Another client starts the donor. The kubelet reports the new boot before the donor can be off again: start
		// and stop take longer than the validity of a proof (package capture).
		if n.f.Donor.Power == Off {
			*n = n.boot()
			if n.booted && (n.f.Disk.Proven || n.said) && !n.f.Hold.Returning {
				n.f.Donor.Rebooted = true
			}
		}
	})
	add(func(n *model) { // a stranger stops it
		if n.f.Donor.Power == On {
			n.f.Donor.Power = Off
		}
	})
	add(func(n *model) { n.hung = n.f.MustBoot() })
	add(func(n *model) { n.f.Disk.PoweringOff = false }) // the announced power-off does not follow
	add(func(n *model) {
		if n.f.Disk.Pod == PodActive {
			n.f.Disk.Pod = PodFailed
		}
	})
	add(func(n *model) { n.f.Disk.Pod = NoPod }) // a client deletes the pod
	add(func(n *model) {
		// Or the NodeOrder is removed, or a pass created a NodeOrder and crashed. A client that can delete NodeOrders can also
		// write proofs: the model has no removal while the pod revokes its proof.
		if !n.retracted {
			n.f.Disk.Order = n.f.isHeld() && !n.f.MustBoot() && !n.f.Disk.Order
		}
	})
	add(func(n *model) { // the pod has no confirmation of the proof, revokes the proof and continues
		if n.said && n.f.Disk.Order && n.f.Donor.Power == On && !n.booted {
			n.retracted, n.clean = true, false
		}
	})
	add(func(n *model) { n.proofGone = n.f.Disk.Proven || own(n.f.Image.Snapshot) || own(n.f.Image.Version) })
	add(func(n *model) { n.f.Hold.Overdue = n.f.isHeld() })
	add(func(n *model) { n.f.Hold.Overdue, n.f.Hold.ReadyOverdue = n.f.isHeld(), n.f.isHeld() })
	add(func(n *model) { n.f.Donor.DrainOverdue = n.f.isHeld() && !n.f.Donor.Drained })
	add(func(n *model) {
		if n.f.Image.Snapshot == Pending || n.f.Image.Snapshot == Taken {
			n.f.Image.Snapshot = Broken
		}
	})
	add(func(n *model) {
		if n.f.Image.Snapshot == Taken || n.f.Image.Snapshot == Complete {
			n.f.Image.Snapshot = Deleting
		}
	})
	add(func(n *model) {
		if n.f.Image.Version == Pending {
			n.f.Image.Version = Broken
		}
	})
	add(func(n *model) { n.f.Image.Quarantined = n.f.Image.Version == Complete })
	add(func(n *model) {
		if n.f.Image.Version == Complete {
			n.f.Promotion.Recipe = RecipeNewer
		}
	})
	add(func(n *model) {
		if n.f.Image.Version == Complete && n.f.Promotion.Recipe == RecipeElsewhere {
			n.f.Promotion.Recipe = RecipeChanged
		}
	})
	return out
}

// world is the model of captures with these worlds at their begin. Any pass may find the cloud silent.
func world(starts ...[]model) *plantest.Model[model, Facts, Action, Reason] {
	seen := func(w model) Facts { return w.f }
	return &plantest.Model[model, Facts, Action, Reason]{
		Starts: slices.Concat(starts...), Facts: seen, Effect: model.effect, Progress: model.progress, Later: model.later,
		Adverse: model.adverse, Closed: func(w model) bool { return w.closed }, Rules: model.rules,
		Beside: &plantest.Beside[model, Facts, Action, Reason]{Next: WithoutCloud, Facts: model.inCluster, Rules: besideRules},
	}
}

// reached is what the planner reaches within so many adversities.
type reached struct {
	*plantest.Exploration[model, Facts, Action, Reason]
	facts    map[Facts]bool
	attempts int8 // at a trial, at most
}

func explore(adversities int, starts ...[]model) reached {
	r, m := reached{facts: map[Facts]bool{}}, world(starts...)
	m.Visit = func(w model) { r.facts[w.f], r.attempts = true, max(r.attempts, w.tried.attempts) }
	r.Exploration = m.Explore(Next, adversities)
	return r
}

// everywhere is what is reached from the begin of every capture. It is explored once for all tests.
var everywhere = sync.OnceValue(func() reached {
	return explore(adversities(testing.Short()), returningDonors(), instantDonors(), pioneers())
})

// TestEveryReachableWorld checks safety, promptness and liveness in all worlds within three adversities, with each
// action lost before or after its effect.
func TestEveryReachableWorld(t *testing.T) {
	e := everywhere()
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	t.Logf("%d worlds, %d distinct facts", e.Worlds, len(e.facts))
}
