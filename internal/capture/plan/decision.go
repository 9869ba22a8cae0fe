package plan

import (
	"cmp"

	"github.com/kamino-dev/kamino/internal/step"
)

// Decision is one action, with the reason of a wait or a failure.
type Decision = step.Decision[Action, Reason]

var do, wait, fail = step.Verbs[Action, Reason]()

// Action is the effect of one pass of a capture.
type Action string

// The actions in the order of a capture that meets no trouble.
const (
	// Wait changes nothing; Why is the awaited event.
	Wait Action = step.Wait
	// Refuse ends a capture that has not begun.
	Refuse Action = "Refuse"
	// Look creates the pod that inspects the donor's disk while the donor serves.
	Look Action = "Look"
	// Reserve writes the reservation onto the Node and the Prototype, with the state of the Node before the capture.
	Reserve Action = "Reserve"
	// Record copies the reservation to the Prototype.
	Record Action = "Record"
	// Relock writes the recorded reservation onto the Node again.
	Relock Action = "Relock"
	// Note copies the recorded order and return into the reservation on the Node.
	Note Action = "Note"
	// Protect protects the instance from scale-in.
	Protect Action = "Protect"
	// PatchDonor makes one step of a pioneer's patch: drain, patch, reboot, or observation in service.
	PatchDonor Action = "PatchDonor"
	// Cordon keeps new pods away.
	Cordon Action = "Cordon"
	// Evict requests one eviction for each remaining pod, and does not wait.
	Evict Action = "Evict"
	// Order creates the Order of the pod. The record then names the Order and the boot in which the donor is
	// generalized.
	Order Action = "NodeOrder"
	// Generalize creates the generalize pod on the donor.
	Generalize Action = "Generalize"
	// Adopt records the UID of the generalize pod.
	Adopt Action = "Adopt"
	// Believe copies the signed report of the pod from the NodeOrder to the Prototype.
	Believe Action = "Believe"
	// Stop powers the donor off.
	Stop Action = "Stop"
	// TakeSnapshot copies the donor's disk.
	TakeSnapshot Action = "TakeSnapshot"
	// BeginWorkshop records the workshop, and then asks the cloud for its instance.
	BeginWorkshop Action = "BeginWorkshop"
	// QuiesceDonor creates the NodeOrder and the pod that flush the disk of a donor in service. A new copy begins.
	QuiesceDonor Action = "QuiesceDonor"
	// CopyRunning lets the pod freeze the disk, asks the cloud for the snapshot, and records whether the cloud accepted in time.
	CopyRunning Action = "CopyRunning"
	// DeleteRawCopy removes the snapshot of the running disk.
	DeleteRawCopy Action = "DeleteRawCopy"
	// AttachVolume makes a disk from the snapshot of the running disk, and attaches it to the workshop. DetachVolume detaches
	// the disk.
	AttachVolume Action = "AttachVolume"
	DetachVolume Action = "DetachVolume"
	// DeleteVolume removes the disk.
	DeleteVolume Action = "DeleteVolume"
	// EndWorkshop removes the workshop with its disk.
	EndWorkshop Action = "EndWorkshop"
	// DeletePod removes the pod on the donor.
	DeletePod Action = "DeletePod"
	// DeleteOrder removes the NodeOrder and its key: later reports on the NodeOrder are ignored.
	DeleteOrder Action = "DeleteOrder"
	// Return records that the disk is no longer needed, and that the donor is started.
	Return Action = "Return"
	// Start powers the donor on.
	Start Action = "Start"
	// Unprotect restores the scale-in protection from before the capture.
	Unprotect Action = "Unprotect"
	// Serve restores the cordon from before the capture. The reservation and the protection stay.
	Serve Action = "Serve"
	// Release restores the Node and removes the reservation.
	Release Action = "Release"
	// Forget removes the reservation from the Prototype.
	Forget Action = "Forget"
	// Publish creates the image version.
	Publish Action = "Publish"
	// DeleteSnapshot removes the snapshot.
	DeleteSnapshot Action = "DeleteSnapshot"
	// BeginTrial records an attempt at a trial, and then asks the cloud for its instance.
	BeginTrial Action = "BeginTrial"
	// WatchTrial inspects the trial node, and records the results.
	WatchTrial Action = "WatchTrial"
	// PassTrial tags the image: the version has passed its trial.
	PassTrial Action = "PassTrial"
	// Quarantine tags the image: the version has failed its trial, and no recipe may name the version.
	Quarantine Action = "Quarantine"
	// EndTrial removes all objects of an attempt.
	EndTrial Action = "EndTrial"
	// SaveRecipe saves the parts of the recipe that the promotion removes.
	SaveRecipe Action = "SaveRecipe"
	// Promote lets the recipe name the version.
	Promote Action = "Promote"
	// Retire removes versions beyond the retention limit.
	Retire Action = "Retire"
	// Succeed ends the capture with success.
	Succeed Action = "Succeed"
	// Fail records the failure with its reason. The donor is released next.
	Fail Action = step.Fail
	// DeleteImage removes an unfinished image version.
	DeleteImage Action = "DeleteImage"
	// Close ends a capture that failed or is being deleted, after the removal of all leftovers.
	Close Action = "Close"
)

// Actions lists all actions, for exhaustive tests and for help texts.
var Actions = []Action{
	Wait, Refuse, Look, Reserve, Record, Relock, Note, Protect, PatchDonor, Cordon, Evict, Order, Generalize, Adopt, Believe, Stop, TakeSnapshot,
	BeginWorkshop, QuiesceDonor, CopyRunning, DeleteRawCopy, AttachVolume, DetachVolume, DeleteVolume, EndWorkshop, DeletePod, DeleteOrder, Return,
	Start, Unprotect, Serve, Release, Forget, Publish, DeleteSnapshot,
	BeginTrial, WatchTrial, PassTrial, Quarantine, EndTrial, SaveRecipe, Promote, Retire, Succeed, Fail,
	DeleteImage, Close,
}

// Reason is the awaited event of a wait, or the cause of a failure.
type Reason string

// The events that a capture waits for.
const (
	ForTurn Reason = "Turn"
	// ForNeighbour waits with a reserved donor that still serves: another node went out of service meanwhile.
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
	// ForTrial waits between two attempts at a trial, ForPromotion for a person to promote the version.
	ForTrial     Reason = "Trial"
	ForPromotion Reason = "Promotion"
	// ForWorkshop waits for the Ready Node of the workshop, and ForVolume for the disk made from the copy. ForQuiet waits for
	// the end of package transactions and image pulls on the donor.
	ForWorkshop Reason = "Workshop"
	ForQuiet    Reason = "Quiet"
	ForVolume   Reason = "Volume"
	// ForCloud waits for a cloud that does not answer.
	ForCloud Reason = "Cloud"
)

// The reasons of failures after the begin of a capture. docs/reasons.yaml lists the remedies.
const (
	DiskCheckFailed Reason = "DiskCheckFailed"
	DonorGone       Reason = "DonorGone"
	RecordLost      Reason = "RecordLost"
	// DonorNotPatched: the patch of a pioneer failed. NothingToPatch: the pioneer needs no new image.
	DonorNotPatched  Reason = "DonorNotPatched"
	NothingToPatch   Reason = "NothingToPatch"
	DeadlineExceeded Reason = "DeadlineExceeded"
	DrainTimeout     Reason = "DrainTimeout"
	Interrupted      Reason = "Interrupted"
	GeneralizeFailed Reason = "GeneralizeFailed"
	NotProven        Reason = "NotProven"
	OfOtherCapture   Reason = "OfOtherCapture"
	// DonorBusy: package transactions or image pulls did not end. QuiesceNotDone: the pod that flushes the disk failed.
	DonorBusy       Reason = "DonorBusy"
	QuiesceNotDone  Reason = "QuiesceNotDone"
	DonorNotReady   Reason = "DonorNotReady"
	NewNodeNotReady Reason = "NewNodeNotReady"
	ImageFailed     Reason = "ImageFailed"
	Quarantined     Reason = "Quarantined"
	// TrialFailed: the version is bad. TrialInconclusive: no attempt gave a verdict. PromotionStale: no person promoted
	// the version in time.
	TrialFailed       Reason = "TrialFailed"
	TrialInconclusive Reason = "TrialInconclusive"
	PromotionStale    Reason = "PromotionStale"
	Superseded        Reason = "Superseded"
	RecipeTaken       Reason = "RecipeChanged"
)

// The causes of failures that the message explains. Their remedy is that of another reason: see Public.
const (
	DonorStopped    Reason = "DonorStopped"
	DonorRestarted  Reason = "DonorRestarted"
	ReservationLost Reason = "ReservationLost"
	ProofLost       Reason = "ProofLost"
	OrderOutdated   Reason = "OrderOutdated"
	OrderGone       Reason = "OrderGone"
	// PatchLevelChanged: the disk has other packages than the watched node.
	PatchLevelChanged      Reason = "PatchLevelChanged"
	SnapshotOfOtherCapture Reason = "SnapshotOfOtherCapture"
	VersionOfOtherCapture  Reason = "VersionOfOtherCapture"
	SnapshotFailed         Reason = "SnapshotFailed"
	SnapshotLost           Reason = "SnapshotLost"
	ImageLost              Reason = "ImageLost"
	// WorkshopNotJoined, WorkshopGone, WorkshopRestarted: no machine cleans the copy. CopyUnusable: too many copies were discarded.
	WorkshopNotJoined Reason = "WorkshopNotJoined"
	WorkshopGone      Reason = "WorkshopGone"
	WorkshopRestarted Reason = "WorkshopRestarted"
	CopyUnusable      Reason = "CopyUnusable"
)

var public = map[Reason]Reason{
	DonorStopped: Interrupted, DonorRestarted: Interrupted, WorkshopGone: Interrupted, WorkshopRestarted: Interrupted,
	ReservationLost: RecordLost, ProofLost: RecordLost,
	OrderOutdated: NotProven, OrderGone: NotProven,
	PatchLevelChanged:      DonorNotPatched,
	CopyUnusable:           DonorBusy,
	WorkshopNotJoined:      NewNodeNotReady,
	SnapshotOfOtherCapture: OfOtherCapture, VersionOfOtherCapture: OfOtherCapture,
	SnapshotFailed: ImageFailed, SnapshotLost: ImageFailed, ImageLost: ImageFailed,
}

// Public is the reason of the cause in the status, in events and in metrics: causes with one remedy have one reason.
func (r Reason) Public() Reason { return cmp.Or(public[r], r) }
