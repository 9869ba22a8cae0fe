package plan

import "fmt"

// Decision is one action, with the reason of a wait or a failure.
type Decision struct {
	Do  Action
	Why Reason
}

// String reads as "Wait for Proof" or "Fail: DrainTimeout" or "Cordon".
func (d Decision) String() string {
	if d.Why == "" {
		return string(d.Do)
	}
	return fmt.Sprintf("%s: %s", d.Do, d.Why)
}

func do(a Action) Decision   { return Decision{Do: a} }
func wait(r Reason) Decision { return Decision{Do: Wait, Why: r} }
func fail(r Reason) Decision { return Decision{Do: Fail, Why: r} }

// Action is what a pass of the capture does.
type Action string

// The actions in the order of a capture when nothing goes wrong.
const (
	// Wait does nothing now; Why says for what.
	Wait Action = "Wait"
	// Refuse ends a capture that has not begun.
	Refuse Action = "Refuse"
	// Look makes the pod that looks at the donor's disk while the donor serves.
	Look Action = "Look"
	// Reserve writes the lock and the record of what to give back onto the Node.
	Reserve Action = "Reserve"
	// Record copies the reservation to the Prototype.
	Record Action = "Record"
	// Relock writes the reservation onto the Node again, from the record.
	Relock Action = "Relock"
	// Note writes into the reservation on the Node what the record says of the order and the return.
	Note Action = "Note"
	// Protect protects the instance from its pool's shrinking.
	Protect Action = "Protect"
	// Cordon keeps new pods away.
	Cordon Action = "Cordon"
	// Evict asks the pods that are left to go, once, and does not wait for them.
	Evict Action = "Evict"
	// Order makes the order for the pod, and writes it down with the boot under which the donor is about to be
	// generalized.
	Order Action = "Order"
	// Generalize makes the pod that runs on the donor.
	Generalize Action = "Generalize"
	// Adopt writes down which pod it is.
	Adopt Action = "Adopt"
	// Believe copies what that pod has signed from the order to the Prototype.
	Believe Action = "Believe"
	// Stop powers the donor off.
	Stop Action = "Stop"
	// TakeSnapshot copies the donor's disk.
	TakeSnapshot Action = "TakeSnapshot"
	// DeletePod removes the generalize pod.
	DeletePod Action = "DeletePod"
	// DeleteOrder removes the order and its key: nothing that is said on it counts any more.
	DeleteOrder Action = "DeleteOrder"
	// Return writes down that the disk is no longer needed and the power comes back.
	Return Action = "Return"
	// Start powers the donor on.
	Start Action = "Start"
	// Unprotect gives the instance's protection back as it was.
	Unprotect Action = "Unprotect"
	// Serve gives the Node its cordon back as it was, while the lock and all else that holds it stay.
	Serve Action = "Serve"
	// Release gives the Node back as it was and removes the lock.
	Release Action = "Release"
	// Forget removes the reservation from the Prototype.
	Forget Action = "Forget"
	// Enlarge grows the pool by the donor's successor.
	Enlarge Action = "Enlarge"
	// Remove has the cloud remove the donor's instance, with its place in the pool.
	Remove Action = "Remove"
	// DeleteNode removes the Node of an instance that is gone.
	DeleteNode Action = "DeleteNode"
	// Publish makes the image version.
	Publish Action = "Publish"
	// DeleteSnapshot removes the snapshot.
	DeleteSnapshot Action = "DeleteSnapshot"
	// BeginTrial writes an attempt at a trial down, and then has the cloud build its instance.
	BeginTrial Action = "BeginTrial"
	// CloseTrial has the recipe of a pool that a trial has opened name again what it named before.
	CloseTrial Action = "CloseTrial"
	// WatchTrial looks at the trial node, and notes what must not be forgotten of that.
	WatchTrial Action = "WatchTrial"
	// PassTrial writes on the image that the version has passed its trial.
	PassTrial Action = "PassTrial"
	// Quarantine writes on the image that the version has failed its trial and must never be used.
	Quarantine Action = "Quarantine"
	// EndTrial removes all that an attempt has made.
	EndTrial Action = "EndTrial"
	// SaveRecipe keeps what the recipe is about to lose.
	SaveRecipe Action = "SaveRecipe"
	// Promote points the recipe at the version.
	Promote Action = "Promote"
	// Retire removes versions that are no longer kept.
	Retire Action = "Retire"
	// ScaleOut grows the pool.
	ScaleOut Action = "ScaleOut"
	// Succeed writes the end.
	Succeed Action = "Succeed"
	// Fail writes the verdict; Why says which. Giving back follows.
	Fail Action = "Fail"
	// DeleteImage removes an image version that was not finished.
	DeleteImage Action = "DeleteImage"
	// Close ends a capture that failed or is being deleted, when nothing is left behind.
	Close Action = "Close"
)

// Actions lists every action, for exhaustive tests and for help texts.
var Actions = []Action{
	Wait, Refuse, Look, Reserve, Record, Relock, Note, Protect, Cordon, Evict, Order, Generalize, Adopt, Believe, Stop, TakeSnapshot, DeletePod, DeleteOrder, Return,
	Start, Unprotect, Serve, Release, Forget, Enlarge, Remove, DeleteNode, Publish, DeleteSnapshot,
	BeginTrial, CloseTrial, WatchTrial, PassTrial, Quarantine, EndTrial, SaveRecipe, Promote, Retire, ScaleOut, Succeed, Fail,
	DeleteImage, Close,
}

// Reason says what is waited for, or why a capture fails.
type Reason string

// What a capture waits for.
const (
	ForTurn Reason = "Turn"
	// ForNeighbour waits with a donor that is reserved and has lost nothing yet: somebody else took a node meanwhile.
	ForNeighbour Reason = "Neighbour"
	ForLook      Reason = "Look"
	ForDonor     Reason = "Donor"
	ForProof     Reason = "Proof"
	ForPowerOff  Reason = "PowerOff"
	ForSnapshot  Reason = "Snapshot"
	ForPowerOn   Reason = "PowerOn"
	ForReady     Reason = "Ready"
	ForImage     Reason = "Image"
	ForDeletion  Reason = "Deletion"
	ForHolder    Reason = "Holder"
	// For what takes a donor's place, and for its instance to go.
	ForReplacement Reason = "Successor"
	ForRemoval     Reason = "Removal"
	// ForTrial waits between two attempts at a trial, ForPromotion for a person to promote the version.
	ForTrial     Reason = "Trial"
	ForPromotion Reason = "Promotion"
	// ForCloud waits for a cloud that does not answer.
	ForCloud Reason = "Cloud"
)

// Why a capture fails once it has begun. docs/prototype.md tells each one's remedy.
const (
	LookFailed       Reason = "LookFailed"
	DonorGone        Reason = "DonorGone"
	DonorStopped     Reason = "DonorStopped"
	RecordLost       Reason = "RecordLost"
	ReservationLost  Reason = "ReservationLost"
	DeadlineExceeded Reason = "DeadlineExceeded"
	DrainTimeout     Reason = "DrainTimeout"
	Interrupted      Reason = "Interrupted"
	DonorRestarted   Reason = "DonorRestarted"
	GeneralizeFailed Reason = "GeneralizeFailed"
	OrderOutdated    Reason = "OrderOutdated"
	NotProven        Reason = "NotProven"
	ProofLost        Reason = "ProofLost"
	SnapshotTaken    Reason = "SnapshotTaken"
	SnapshotFailed   Reason = "SnapshotFailed"
	SnapshotLost     Reason = "SnapshotLost"
	DonorNotReady    Reason = "DonorNotReady"
	SuccessorFailed  Reason = "SuccessorNotReady"
	VersionTaken     Reason = "VersionTaken"
	ImageFailed      Reason = "ImageFailed"
	ImageLost        Reason = "ImageLost"
	Quarantined      Reason = "Quarantined"
	// TrialFailed: the version is bad. TrialInconclusive: nobody could say. PromotionStale: nobody has promoted it.
	TrialFailed       Reason = "TrialFailed"
	TrialInconclusive Reason = "TrialInconclusive"
	PromotionStale    Reason = "PromotionStale"
	Superseded        Reason = "Superseded"
	RecipeTaken       Reason = "RecipeChanged"
)
