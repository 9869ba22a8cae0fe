package plan

// Facts is the world as one look saw it, in so few words that all of its reachable values can be
// enumerated. The zero value is a Prototype that was just made, with a donor that is gone.
type Facts struct {
	// Deleting: somebody deleted the Prototype; it stays until nothing is left behind.
	Deleting bool
	// Failed: the verdict was written down that this capture will not succeed.
	Failed bool
	// Refused: the preflight found a reason not to begin. Looked at only while nothing has been done.
	Refused bool
	// Queued: as many captures as are allowed at once hold donors already, or somebody else has a node out of service.
	Queued bool

	// Lock is who holds the Node, by its reservation annotation.
	Lock Lock
	// Recorded: the reservation is saved in the Prototype, where it outlives the Node object.
	Recorded bool
	// Noted: the reservation on the Node, where it outlives the Prototype, says of the order and the return what the
	// record says. True wherever the Node does not carry our reservation.
	Noted bool
	// Unrecorded: the capture has begun, and neither Prototype nor Node knows how far it came: somebody removed it.
	Unrecorded bool
	// Node is the donor as the API server sees it.
	Node Node
	// Cordoned: the node takes no new pods.
	Cordoned bool
	// Serves: its cordon is as it was before the capture.
	Serves bool
	// Restored: the node's cordon and annotations are as they were before the capture, or it is gone.
	Restored bool
	// Drained: every pod that must leave has left.
	Drained bool
	// DrainOverdue: the drain took longer than it may, and must not be forced.
	DrainOverdue bool

	// Power of the instance.
	Power Power
	// Protected: the instance is protected from its pool's shrinking.
	Protected bool
	// ProtectionRestored: that protection is as it was before the capture.
	ProtectionRestored bool

	// Touched: it was written down that an order is about to change the donor's disk, and under which boot.
	Touched bool
	// Down: it was written down that the donor goes down, or is, for this capture. An order in place brings both; a donor
	// that somebody else stopped is down, and its disk is what it was.
	Down bool
	// Outdated: it was written down by a version that made no orders.
	Outdated bool
	// Order: the order, and maybe its key, is there.
	Order bool
	// Pod is the pod on the donor: the one that looks before the order, the generalize pod behind it. They have one name.
	Pod Pod
	// PodKnown: it was written down which pod it is.
	PodKnown bool
	// Reported: that pod has signed something on its order that the Prototype does not carry yet.
	Reported bool
	// Proven: the proof on the Prototype holds for it and that boot.
	Proven bool
	// ProofLost: a snapshot or an image of this Prototype does not carry the proof that the Prototype carries.
	ProofLost bool
	// PoweringOff: the proof is so fresh that the donor, which powers itself off behind it, may just be doing so.
	PoweringOff bool
	// Rebooted: the node has reported another boot since.
	Rebooted bool
	// Returning: it was written down that the disk is no longer needed and the power comes back.
	Returning bool

	// Snapshot of the donor's disk and Image made of it.
	Snapshot Artifact
	Image    Artifact
	// Quarantined: the image must never be used.
	Quarantined bool

	// Leaves: the donor does not return, because what lets it join is taken off its disk. Once it was touched, its instance
	// is removed, whatever becomes of the capture; until then it is given back like any other.
	Leaves bool
	// GrowFirst: the pool grows by one before such a donor is taken; else its place is filled when it is gone.
	GrowFirst bool
	// Replacement is the node that takes the place of a donor that leaves.
	Replacement Replacement
	// Removing: the cloud is removing the instance.
	Removing bool
	// Kept: the instance is gone, and the pool keeps what it has of it: its place, and its hold.
	Kept bool

	// Tries: the version is tried before the pool uses it.
	Tries bool
	// Tried is the verdict on the version, as the image's own tags tell it. One that has failed is Quarantined.
	Tried Verdict
	// Trial is how far an attempt at it is.
	Trial Trial
	// Opened: the pool's recipe names the version for the attempt alone. Recipe is then what it names apart from that.
	Opened bool
	// Judged is what the attempt has come to.
	Judged Verdict
	// Paused: the last attempt could not tell, and the next one is not due yet.
	Paused bool
	// TrialOver: the attempts have taken as long as they may.
	TrialOver bool

	// Manual: a person promotes the version. Stale: where one does, nobody has for as long as that is waited for.
	Manual, Stale bool

	// Recipe is what the pool's recipe points at, against this Prototype's version.
	Recipe Recipe
	// Saved: what the recipe will lose is kept, or it loses nothing.
	Saved bool
	// Excess: there are versions to retire.
	Excess bool
	// Growing: the pool is still to grow after the promotion.
	Growing bool

	// Overdue: the donor has been held for longer than it may be without a snapshot.
	Overdue bool
	// Hopeless: a donor that runs again has been awaited for longer than it may take to be Ready.
	Hopeless bool
}

// Lock is who holds the donor's Node.
type Lock string

const (
	Unlocked Lock = ""
	Ours     Lock = "ours"
	Theirs   Lock = "theirs"
	// Stray: over ours stands what nobody can read, or the name of a holder that there is not.
	Stray Lock = "stray"
)

// Node is the donor's Node object.
type Node string

const (
	NodeGone     Node = ""
	NodeNotReady Node = "notReady"
	NodeReady    Node = "ready"
)

// Power is the donor's instance.
type Power string

const (
	InstanceGone Power = ""
	On           Power = "on"
	Changing     Power = "changing"
	Off          Power = "off"
)

// Replacement is the node that takes the place of a donor that leaves, as far as it is wanted now.
type Replacement string

const (
	NoReplacement      Replacement = ""        // none is wanted, or none any more
	ReplacementWanted  Replacement = "wanted"  // the pool is not meant to have it yet
	ReplacementAwaited Replacement = "awaited" // it is, and the node is not Ready
	ReplacementReady   Replacement = "ready"
	ReplacementLate    Replacement = "late" // it takes longer than it may
)

// Pod is the pod on the donor.
type Pod string

const (
	NoPod     Pod = ""
	PodActive Pod = "active"
	PodFailed Pod = "failed" // ended without a proof, found what is in the way, or cannot start
	PodLooked Pod = "looked" // ended, and found nothing in the way
)

// Artifact is a snapshot or an image version.
type Artifact string

const (
	Absent   Artifact = ""
	Pending  Artifact = "pending"
	Taken    Artifact = "taken" // pending, of a snapshot alone: whatever becomes of the disk from now on, the copy is what it was
	Complete Artifact = "complete"
	Broken   Artifact = "broken" // the cloud gave up on it
	Deleting Artifact = "deleting"
	Foreign  Artifact = "foreign" // made by somebody else under our name
)

// Verdict on a version, or what an attempt has come to.
type Verdict string

const (
	NoVerdict           Verdict = ""
	VerdictPassed       Verdict = "passed"
	VerdictFailed       Verdict = "failed"
	VerdictInconclusive Verdict = "inconclusive" // of an attempt alone: it will not tell
)

// Trial is how far an attempt at a trial is.
type Trial string

const (
	NoTrial      Trial = ""        // there is none, or none any more
	TrialDecided Trial = "decided" // written down, and the cloud has nothing of it
	TrialMaking  Trial = "making"  // the cloud makes its instance
	TrialBuilt   Trial = "built"   // its instance is there, or was
	TrialEnding  Trial = "ending"  // it was written down that all of it goes
)

// Recipe is what the pool's recipe points at.
type Recipe string

const (
	RecipeElsewhere Recipe = ""        // an earlier version, or another image
	RecipeHere      Recipe = "here"    // this version, exactly as the promotion wants it
	RecipeNewer     Recipe = "newer"   // a later version: this capture came too late
	RecipeChanged   Recipe = "changed" // another image than before the capture: somebody else set it
)

// held tells whether the donor is out of its owner's hands.
func (f Facts) held() bool { return f.Lock == Ours || f.Recorded }

// DonePodMatters tells whether a generalize pod that has done its work can bear on the decision: it is removed
// before the power comes back, and once more where the capture ends, because the order to create it may have
// been on its way when an earlier driver died.
func (f Facts) DonePodMatters() bool {
	ends := f.Failed || f.Deleting
	switch {
	case !f.Touched, f.Returning && f.held():
		return false
	case f.Returning, f.gone():
		return ends || f.finishing()
	case f.Proven && f.Snapshot == Absent && f.Image == Absent:
		return ends // the disk is still to be copied
	default:
		return ends || !f.copying()
	}
}

// HoldMatters reports whether the protection of the instance can change the decision. It cannot while a donor that returns still boots.
func (f Facts) HoldMatters() bool {
	return !f.Returning || f.back() || f.Hopeless || f.Power == InstanceGone || f.Leaves
}

// LeftOrderMatters tells whether an order that was not looked for yet can bear on the decision: one that a pass
// has made and could not write down, or that an earlier driver's last request brought back.
func (f Facts) LeftOrderMatters() bool {
	ends := f.Failed || f.Deleting
	switch {
	case !f.Touched:
		return ends
	case !f.Returning && !f.gone():
		return f.Leaves && f.Outdated // otherwise it was looked for, with the report
	default:
		return !f.held() && (ends || f.finishing())
	}
}

// finishing tells that nothing is left of a capture that goes well but what its end looks for once more.
func (f Facts) finishing() bool { return f.Recipe == RecipeHere && f.Snapshot != Deleting }

// MustBoot tells whether the donor has to leave a boot before it serves again: the one that its disk was changed in, or
// that it was last seen in before it went down.
func (f Facts) MustBoot() bool { return f.Touched || f.Down }

// gone tells that a donor which leaves has left.
func (f Facts) gone() bool { return f.Leaves && f.Touched && !f.held() }

// back tells whether the donor serves again: Ready under another boot than the one it must leave.
func (f Facts) back() bool { return f.Node == NodeReady && f.Rebooted }

// copying tells whether the donor's disk is needed as it is, for its copy. A donor that leaves takes its disk with it, so that
// nothing less than a complete copy will do.
func (f Facts) copying() bool { return f.Snapshot == Pending || f.Snapshot == Taken && f.leaving() }

// begun tells whether anything of this capture's making is there beside the donor.
func (f Facts) begun() bool {
	made := func(a Artifact) bool { return a != Absent && a != Foreign }
	return f.Pod != NoPod || made(f.Snapshot) || made(f.Image)
}
