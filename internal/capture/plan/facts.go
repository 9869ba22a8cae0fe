package plan

// Facts is the state of one capture as one pass observed it, by room. The values are few, so that tests can enumerate all
// reachable states. The zero value is a new Prototype of which nothing was read.
type Facts struct {
	// Deleting: the Prototype has a deletion timestamp, and stays until all leftovers are removed.
	Deleting bool
	// Failed: the status has a failure.
	Failed bool
	// Unrecorded: the capture has begun, but its record on the Prototype is lost. The capture ends; the Lease has what the
	// return of the donor needs.
	Unrecorded bool
	// Refused: the preflight found an obstacle. Valid only before the capture begins.
	Refused bool
	// Queued: the limit of concurrent captures is reached, or another node of the cluster is out of service.
	Queued bool

	Hold      HoldFacts
	Donor     DonorFacts
	Disk      DiskFacts
	Copy      CopyFacts
	Image     ImageFacts
	Trial     TrialFacts
	Promotion PromotionFacts
}

// HoldFacts are the reservation of the donor, and what the capture has changed on the donor for its time.
type HoldFacts struct {
	// Lock is the holder of the Node by the reservation annotation.
	Lock Lock
	// Recorded: the reservation is saved in the Prototype, and so outlives the Node object.
	Recorded bool
	// Noted: the reservation on the Node repeats the record of the order and the return, and so outlives the Prototype.
	// True also if the Node does not carry our reservation.
	Noted bool
	// Protected: the instance is protected from scale-in.
	Protected bool
	// ProtectionRestored: the scale-in protection is as before the capture.
	ProtectionRestored bool
	// CordonRestored: the cordon is as before the capture.
	CordonRestored bool
	// Restored: cordon and annotations of the Node are as before the capture, or the Node is gone.
	Restored bool
	// Returning: the record says that the disk is no longer needed, and that the donor is started.
	Returning bool
	// Overdue: the donor has exceeded its deadline out of service without a snapshot.
	Overdue bool
	// ReadyOverdue: a started donor has exceeded its timeout to become Ready.
	ReadyOverdue bool
}

// DonorFacts are the Node and the instance of the donor.
type DonorFacts struct {
	// Node is the state of the donor in the API server.
	Node  Node
	Power Power
	// Cordoned: the node takes no new pods.
	Cordoned bool
	// Drained: no pod is left to evict.
	Drained bool
	// DrainOverdue: the drain has exceeded its timeout, and force is off.
	DrainOverdue bool
	// MustLeaveBoot: the record says that the donor is powered off, or about to be, in this capture. An order in place sets
	// also Disk.Touched. A donor that another client stopped has an unchanged disk.
	MustLeaveBoot bool
	// Rebooted: the node has reported another boot than the recorded boot.
	Rebooted bool
	// Patch is the progress of a pioneer's patch, which precedes the drain for the capture.
	Patch Patch
}

// DiskFacts are the inspection and the generalization of the donor's disk.
type DiskFacts struct {
	// Touched: the record names an order that changes the donor's disk, and the boot of the order.
	Touched bool
	// Outdated: a version of Kamino without NodeOrders wrote the record.
	Outdated bool
	// Order: the NodeOrder exists; its key may exist too.
	Order bool
	// Pod is the pod on the donor: the inspecting pod before the order, the generalize pod afterwards. Both have the
	// same name.
	Pod Pod
	// PodKnown: the record names the UID of the pod.
	PodKnown bool
	// Reported: the pod has signed a report on the NodeOrder that the Prototype does not carry yet.
	Reported bool
	// Proven: the Prototype carries a proof that is valid for this order, pod and boot.
	Proven bool
	// ProofLost: a snapshot or an image of this Prototype carries another proof than the Prototype.
	ProofLost bool
	// PoweringOff: the proof is so recent that the donor may still be powering off.
	PoweringOff bool
	// LevelDiffers: the proof names another patch level than the signed report of the patch.
	LevelDiffers bool
}

// ImageFacts are the snapshot of the donor's disk, and the image version made from the snapshot.
type ImageFacts struct {
	Snapshot Artifact
	Version  Artifact
	// Quarantined: no recipe may name the version.
	Quarantined bool
}

// TrialFacts are the trial of the version.
type TrialFacts struct {
	// Needed: a trial of the version precedes the promotion.
	Needed bool
	// Verdict is the verdict on the version in the image's tags. A failed version is also Quarantined.
	Verdict TrialVerdict
	// KeepsFailed is true while the settings keep the instance of a failed trial for an inspection.
	KeepsFailed bool
	// Progress is the progress of the current attempt.
	Progress Trial
	// AttemptVerdict is the verdict of the current attempt.
	AttemptVerdict TrialVerdict
	// MoreTypes: the version must pass on further machine types after that of the current attempt.
	MoreTypes bool
	// RebootDue: every other check has passed, and the restart of the instance is not recorded as accepted.
	RebootDue bool
	// Paused: the last attempt was inconclusive, and the next attempt is not due.
	Paused bool
	// Over: the attempts have exceeded the trial's timeout.
	Over bool
}

// PromotionFacts are the recipe of the pool.
type PromotionFacts struct {
	// Manual: a person promotes the version, or the version is held back for other pools. Stale: that took longer than the timeout.
	Manual, Stale bool
	// Recipe compares the pool's recipe with this Prototype's version.
	Recipe Recipe
	// Saved: the removed parts of the recipe are saved, or the promotion removes nothing.
	Saved bool
	// MustRetire: there are versions to retire.
	MustRetire bool
}

// Lock is the holder of the donor's Node.
type Lock string

const (
	Unlocked Lock = ""
	Ours     Lock = "ours"
	Theirs   Lock = "theirs"
	// Overwritten: our reservation is overwritten by an unreadable text, or by a holder that does not exist.
	Overwritten Lock = "stray"
)

// Node is the state of the donor's Node object.
type Node string

const (
	NodeGone     Node = ""
	NodeNotReady Node = "notReady"
	NodeReady    Node = "ready"
)

// Patch is the progress of a pioneer's patch.
type Patch string

const (
	NoPatch       Patch = ""         // the donor is captured as it is
	PatchWanted   Patch = "wanted"   // the patch has not begun
	PatchUnderWay Patch = "underWay" // Kamino changes or watches the node
	PatchDone     Patch = "done"     // the node runs the patches, and was healthy in service
	PatchCurrent  Patch = "current"  // nothing was to install
	PatchFailed   Patch = "failed"
)

// Power is the state of the donor's instance.
type Power string

const (
	// PowerUnread: the instance was not read. No decision about a held donor follows.
	PowerUnread  Power = ""
	InstanceGone Power = "gone"
	On           Power = "on"
	Changing     Power = "changing"
	Off          Power = "off"
)

// Pod is the state of the pod on the donor.
type Pod string

const (
	NoPod     Pod = ""
	PodActive Pod = "active"
	PodFailed Pod = "failed" // ended without a proof, found an obstacle, or cannot start
	PodLooked Pod = "looked" // ended, and found no obstacle
	// PodCompared ended on another node of the pool. The inspection of the donor compares its files with that node.
	PodCompared Pod = "compared"
)

// Artifact is the state of a snapshot or an image version.
type Artifact string

const (
	Absent   Artifact = ""
	Pending  Artifact = "pending"
	Taken    Artifact = "taken" // a pending snapshot that later changes of the disk cannot reach
	Complete Artifact = "complete"
	Broken   Artifact = "broken" // the cloud reported a permanent failure
	Deleting Artifact = "deleting"
	Foreign  Artifact = "foreign" // another client made an artifact of the same name
)

// TrialVerdict of a version or of an attempt.
type TrialVerdict string

const (
	NoVerdict           TrialVerdict = ""
	VerdictPassed       TrialVerdict = "passed"
	VerdictFailed       TrialVerdict = "failed"
	VerdictInconclusive TrialVerdict = "inconclusive" // only of an attempt: no verdict is possible
)

// Trial is the progress of an attempt at a trial.
type Trial string

const (
	NoTrial      Trial = ""        // no attempt is open
	TrialDecided Trial = "decided" // recorded; the cloud has no object of the attempt
	TrialMaking  Trial = "making"  // the cloud is creating the instance
	TrialBuilt   Trial = "built"   // the instance exists, or has existed
	TrialEnding  Trial = "ending"  // recorded: all objects of the attempt are removed
)

// Recipe is the version in the pool's recipe.
type Recipe string

const (
	RecipeElsewhere Recipe = ""        // an earlier version, or another image
	RecipeHere      Recipe = "here"    // this version, with all changes of the promotion
	RecipeNewer     Recipe = "newer"   // a later version
	RecipeChanged   Recipe = "changed" // another image than before the capture: another client wrote the recipe
)

// isHeld reports whether the capture holds the donor.
func (f Facts) isHeld() bool { return f.Hold.Lock == Ours || f.Hold.Recorded }

// LeavesDisk reports whether the record says that the donor returns: neither its disk nor the copy matters until the donor is
// released.
func (f Facts) LeavesDisk() bool { return f.isHeld() && f.Hold.Returning }

// PodMatters reports whether the pod on the donor can change the decision: not between the proof and the copy, and no more once
// the record says that the disk is not needed.
func (f Facts) PodMatters() bool {
	if !f.isHeld() {
		return !f.IsOrdered() || f.Copy.Workshop != NoWorkshop
	}
	if f.Copy.Wanted {
		return true
	}
	copies := f.Disk.Proven && (f.Image.Snapshot == Absent && f.Image.Version == Absent || f.needsDisk())
	return !f.LeavesDisk() && (!copies || f.Failed || f.Deleting)
}

// OrderMatters reports whether the recorded NodeOrder can change the decision: until the copy, before which it is deleted, or
// until the donor returns.
func (f Facts) OrderMatters() bool {
	if f.Copy.Wanted {
		return f.isHeld()
	}
	return f.isHeld() && f.Disk.Touched && !f.LeavesDisk() && (f.Image.Snapshot == Absent && f.Image.Version == Absent || f.Failed || f.Deleting)
}

// LeftoversMatter reports whether a pod or a NodeOrder that should no longer exist can change the decision. At the end Kamino
// looks again: the request of a crashed process may have arrived late.
func (f Facts) LeftoversMatter() bool {
	return !f.isHeld() && (f.Failed || f.Deleting || f.isFinishing())
}

// isFinishing reports whether a successful capture only checks for leftovers.
func (f Facts) isFinishing() bool {
	return f.Promotion.Recipe == RecipeHere && f.Image.Snapshot != Deleting && !f.Promotion.MustRetire
}

// MustBoot reports whether the donor must boot before it serves. The donor must leave the boot of the order, or its
// last boot before it went down. A donor whose disk is copied while it serves keeps its boot.
func (f Facts) MustBoot() bool { return !f.Copy.Wanted && (f.Disk.Touched || f.Donor.MustLeaveBoot) }

// IsOrdered reports whether the capture has come to the order of its generalization, or beyond.
func (f Facts) IsOrdered() bool { return f.Disk.Touched || f.Donor.MustLeaveBoot }

// isBack reports whether the donor is Ready in another boot than the recorded boot.
func (f Facts) isBack() bool { return f.Donor.Node == NodeReady && f.Donor.Rebooted }

// needsDisk reports whether a copy still needs the donor's disk unchanged.
func (f Facts) needsDisk() bool { return f.Image.Snapshot == Pending }
