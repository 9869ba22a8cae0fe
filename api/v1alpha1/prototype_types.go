package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Prototype is a capture and the resulting image version. The spec is the decision, written before the first
// action; the status is a report.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=proto,categories=kamino
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Donor",type=string,JSONPath=`.spec.donor.nodeName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="In Use",type=string,JSONPath=`.status.conditions[?(@.type=="InUse")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image.id`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 230",message="name must have at most 230 characters, because names of pods and snapshots contain the name"
type Prototype struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the decision. The spec is immutable: delete the Prototype to stop the capture.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: delete this Prototype and create another Prototype"
	Spec PrototypeSpec `json:"spec"`

	// Status is a report. Kamino can rebuild a lost status.
	// +optional
	Status PrototypeStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object. The object lacks these fields, and Unreadable itself is never stored.
	Unreadable Unreadable `json:"-"`
}

// PrototypeList is a list of Prototypes.
// +kubebuilder:object:root=true
type PrototypeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Prototype `json:"items"`
}

// PrototypeSpec defines the donor, the pool, the version and the settings.
// +kubebuilder:validation:XValidation:rule="!has(self.settings) || !has(self.settings.aws) || self.donor.providerID.startsWith('aws://')",message="settings.aws is for nodes of AWS, but the donor is in another cloud: remove settings.aws"
// +kubebuilder:validation:XValidation:rule="!has(self.settings) || !has(self.settings.azure) || self.donor.providerID.startsWith('azure://')",message="settings.azure is for nodes of Azure, but the donor is in another cloud: remove settings.azure"
type PrototypeSpec struct {
	// Pool whose new nodes use the image: the name in the cloud, such as the name of a scale set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	Pool string `json:"pool"`

	// PoolID is the ID of the pool in the cloud, such as the resource ID of a scale set. The creator of the Prototype
	// writes PoolID if the ID of an instance does not contain the pool. Default: the pool of the donor's instance.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PoolID string `json:"poolID,omitempty"`

	// Version of the image: the day of the decision in UTC, as YYYY.MM.DD. For another version of the same day, add
	// two digits, starting with 02, as YYYY.MM.DD02. Month and day have two digits.
	// +kubebuilder:validation:Pattern=`^[0-9]{4}\.(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])(0[2-9]|[1-9][0-9])?$`
	Version string `json:"version"`

	// Donor is the captured node.
	// +required
	Donor Donor `json:"donor,omitzero"`

	// Settings of the capture.
	// +optional
	// +kubebuilder:default={}
	Settings Settings `json:"settings,omitempty"`

	// Pioneer makes Kamino patch and reboot the donor before the capture. Absent: the donor is captured as it is.
	// +optional
	Pioneer *PioneerSettings `json:"pioneer,omitempty"`
}

// Donor names a node and the instance of the node.
type Donor struct {
	// NodeName of the donor.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// ProviderID of the donor at the decision (Node.spec.providerID). With the ID, Kamino can release the instance
	// even if the Node is deleted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[a-z]+://.+`
	ProviderID string `json:"providerID"`
}

// Phase is a summary of the capture for people. Programs must read conditions. Growing, Removing and ScalingOut are in the history of
// earlier versions alone.
// +kubebuilder:validation:Enum=Pending;Preflight;Reserving;Patching;Rebooting;Soaking;StartingWorkshop;Quiescing;Copying;Draining;Generalizing;Stopping;Snapshotting;Starting;WaitingReady;Growing;Removing;Releasing;Publishing;RunningTrial;AwaitingPromotion;Promoting;Retiring;ScalingOut;CleaningUp;Succeeded;Failed
type Phase string

// The phases in the order of a capture when nothing goes wrong.
const (
	PhasePending   Phase = "Pending"
	PhasePreflight Phase = "Preflight"
	PhaseReserving Phase = "Reserving"
	// PhasePatching drains and patches a pioneer, PhaseRebooting reboots the pioneer, and PhaseSoaking watches the pioneer in
	// service.
	PhasePatching  Phase = "Patching"
	PhaseRebooting Phase = "Rebooting"
	PhaseSoaking   Phase = "Soaking"
	// PhaseStartingWorkshop waits for the machine on which the copy of a donor in service is cleaned. PhaseQuiescing waits until
	// the donor's disk can be copied, and PhaseCopying until the copy is a disk of that machine.
	PhaseStartingWorkshop Phase = "StartingWorkshop"
	PhaseQuiescing        Phase = "Quiescing"
	PhaseCopying          Phase = "Copying"

	PhaseDraining     Phase = "Draining"
	PhaseGeneralizing Phase = "Generalizing"
	PhaseStopping     Phase = "Stopping"
	PhaseSnapshotting Phase = "Snapshotting"
	PhaseStarting     Phase = "Starting"
	PhaseWaitingReady Phase = "WaitingReady"
	PhaseReleasing    Phase = "Releasing"
	PhasePublishing   Phase = "Publishing"
	// PhaseRunningTrial judges a node that was built from the version.
	PhaseRunningTrial Phase = "RunningTrial"
	// PhaseAwaitingPromotion waits until you promote the version.
	PhaseAwaitingPromotion Phase = "AwaitingPromotion"
	PhasePromoting         Phase = "Promoting"
	PhaseRetiring          Phase = "Retiring"
	// PhaseCleaningUp is a capture that has failed or is being deleted and still holds something.
	PhaseCleaningUp Phase = "CleaningUp"
	PhaseSucceeded  Phase = "Succeeded"
	PhaseFailed     Phase = "Failed"
)

// Phases returns all phases.
func Phases() []Phase {
	return []Phase{
		PhasePending, PhasePreflight, PhaseReserving, PhasePatching, PhaseRebooting, PhaseSoaking, PhaseStartingWorkshop, PhaseQuiescing,
		PhaseCopying, PhaseDraining, PhaseGeneralizing, PhaseStopping,
		PhaseSnapshotting, PhaseStarting, PhaseWaitingReady, PhaseReleasing, PhasePublishing, PhaseRunningTrial,
		PhaseAwaitingPromotion, PhasePromoting, PhaseRetiring, PhaseCleaningUp, PhaseSucceeded, PhaseFailed,
	}
}

// Condition types. Ready, Reconciling and Stalled are those of kstatus.
const (
	// ConditionReady is True after Kamino pointed the pool's recipe at the version, False when the capture failed,
	// Unknown while it runs. ConditionInUse reports the present recipe.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the capture works.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True after a failure, or while the capture needs a person, who must follow the message.
	ConditionStalled = "Stalled"
	// ConditionDegraded is True on a PrototypePolicy while a capture that is wanted is refused.
	ConditionDegraded = "Degraded"
	// ConditionDonorInService is False while the capture holds the donor.
	ConditionDonorInService = "DonorInService"
	// ConditionGeneralized is True once the proof of the generalization is there.
	ConditionGeneralized = "Generalized"
	// ConditionPublished is True once the image version is complete.
	ConditionPublished = "Published"
	// ConditionTrialPassed is True after a passed trial, False after a failed trial, and Unknown during the trial. Absent without
	// a trial.
	ConditionTrialPassed = "TrialPassed"
	// ConditionInUse is True while the recipe of the pool names the version of an ended capture. The controller sets the
	// condition for pools with a policy.
	ConditionInUse = "InUse"
	// ConditionReversible is set before a pool's first promotion, which no rollback undoes. True: `kamino restore` restores
	// the whole recipe. False: perhaps only parts.
	ConditionReversible = "Reversible"
)

// PrototypeStatus reports the progress and the result of a capture.
type PrototypeStatus struct {
	// ObservedGeneration is the generation that the status describes.
	// +optional
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase of the capture, for people.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Progress of the phase, such as "pods left: 3" or "replicating 40%", for people.
	// +optional
	Progress string `json:"progress,omitempty"`

	// Conditions: Ready, InUse, Reconciling, Stalled, DonorInService, Generalized, Published, TrialPassed, Reversible.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="!has(self.observedGeneration) || self.observedGeneration <= 9007199254740991",message="observedGeneration must be at most 9007199254740991"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Steps of the capture so far, in order, with times.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitempty"`

	// UnknownFiles is the result of the comparison of the donor's unknown files with another node of the pool. Absent
	// without a comparison.
	// +optional
	UnknownFiles string `json:"unknownFiles,omitempty"`

	// Image is the created image version.
	// +optional
	Image *ImageStatus `json:"image,omitempty"`

	// Patch of the donor. Absent without a pioneer.
	// +optional
	Patch *PatchStatus `json:"patch,omitempty"`

	// Trial of the version. Absent without a trial.
	// +optional
	Trial *TrialStatus `json:"trial,omitempty"`

	// Recipe lists the changes of the promotion to the pool's recipe. Written shortly before the promotion.
	// +optional
	Recipe *RecipeStatus `json:"recipe,omitempty"`

	// Donor shows how long the donor was reserved: in place, this is its time out of service.
	// +optional
	Donor *DonorStatus `json:"donor,omitempty"`

	// Failure explains why the capture ended without a new recipe.
	// +optional
	Failure *Failure `json:"failure,omitempty"`

	// Retired lists versions deleted by the capture.
	// +optional
	// +listType=atomic
	Retired []string `json:"retired,omitempty"`

	// SavedRecipe is the Secret, as namespace/name, with the fields that the recipe lost.
	// +optional
	SavedRecipe string `json:"savedRecipe,omitempty"`

	// Record is the lasting state of the capture, for Kamino alone. Kamino writes it before each effect, and acts on it.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Record *Record `json:"record,omitempty"`

	// Proof of the generalization, from the signed report on the NodeOrder.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Proof *Proof `json:"proof,omitempty"`

	// Unproven is the signed report that there is no proof.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Unproven *Unproven `json:"unproven,omitempty"`

	// Contents is the compressed list of the version's packages, container images and unknown files. `kamino diff` and
	// `kamino sbom` read it.
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	Contents string `json:"contents,omitempty"`

	// PatchSet is the digest of the pending patches for which the pioneer was begun.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PatchSet string `json:"patchSet,omitempty"`
}

// Step is a phase of the capture, with start and end.
type Step struct {
	// Phase of the step.
	Phase Phase `json:"phase"`
	// StartedAt is the start of the step.
	StartedAt metav1.MicroTime `json:"startedAt"`
	// FinishedAt is the end of the step. Absent while the step runs.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
}

// TrialResult is the result of a check or a trial.
// +kubebuilder:validation:Enum=Pending;Passed;Failed;Inconclusive;Skipped
type TrialResult string

const (
	// TrialPending: there is no result yet.
	TrialPending TrialResult = "Pending"
	TrialPassed  TrialResult = "Passed"
	TrialFailed  TrialResult = "Failed"
	// TrialInconclusive: this attempt will have no result, and the version is not the cause.
	TrialInconclusive TrialResult = "Inconclusive"
	// TrialSkipped: there was nothing to check, or the settings request no check.
	TrialSkipped TrialResult = "Skipped"
)

// TrialWaiting is the message of a check that waits for earlier checks.
const TrialWaiting = "waiting"

// TrialStatus is the state of the trial.
type TrialStatus struct {
	// Result of the trial.
	Result TrialResult `json:"result"`
	// Message of the deciding check, or the current wait reason.
	// +optional
	Message string `json:"message,omitempty"`
	// Attempt is the number of the attempt. After an inconclusive attempt, Kamino starts another attempt.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Attempt int32 `json:"attempt,omitempty"`
	// StartedAt is the start of the first attempt, FinishedAt the time of the verdict.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// Node and Instance of the trial.
	// +optional
	Node string `json:"node,omitempty"`
	// NodeUID is the UID of the tested Node.
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// +optional
	Instance string `json:"instance,omitempty"`
	// Checks with results, in order.
	// +optional
	// +listType=map
	// +listMapKey=name
	Checks []TrialCheck `json:"checks,omitempty"`
	// NodeInfo has the facts that the trial node reports.
	// +optional
	NodeInfo *TrialNode `json:"nodeInfo,omitempty"`
}

// TrialCheck is a check of the trial node.
type TrialCheck struct {
	// Name of the check: https://github.com/kamino-dev/kamino/blob/main/docs/concepts/trial.md
	Name string `json:"name"`
	// Result of the check.
	Result TrialResult `json:"result"`
	// Message explains the result, or the reason for the wait.
	// +optional
	Message string `json:"message,omitempty"`
	// At is the time of the last change of the result.
	// +optional
	At *metav1.MicroTime `json:"at,omitempty"`
}

// TrialNode has the facts that a trial node reports.
type TrialNode struct {
	// +optional
	OSImage string `json:"osImage,omitempty"`
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// +optional
	Kubelet string `json:"kubelet,omitempty"`
	// +optional
	Runtime string `json:"runtime,omitempty"`
	// Images is the number of container images on the disk when the node first became Ready.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Images int32 `json:"images,omitempty"`
	// ReadyAfter is the time from the start of the instance to a Ready node.
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
}

// ImageStatus describes the image version.
type ImageStatus struct {
	// ID of the image version in its cloud.
	ID string `json:"id"`
	// ReplicationPercent is the replication progress reported by the cloud, 0 to 100.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	ReplicationPercent int32 `json:"replicationPercent,omitempty"`
	// Proof of the generalization, from the tags of the image version.
	// +optional
	Proof string `json:"proof,omitempty"`
	// OS, Kernel, Kubelet and Runtime of the donor, from the tags of the image version.
	// +optional
	OS string `json:"os,omitempty"`
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// +optional
	Kubelet string `json:"kubelet,omitempty"`
	// +optional
	Runtime string `json:"runtime,omitempty"`
	// ContentsDigest of the list of packages and container images, from the tags of the image version.
	// status.contents has the list.
	// +optional
	ContentsDigest string `json:"contentsDigest,omitempty"`
}

// Terminal reports whether the capture has ended, with success or without.
func (s *PrototypeStatus) Terminal() bool {
	return s.Phase == PhaseSucceeded || s.Phase == PhaseFailed
}

// HandsOver is a person's work with another tool, so that the pool builds its nodes from the version. Empty if Kamino
// points the pool at the version, or after that work.
func (s *PrototypeStatus) HandsOver() string {
	if s.Phase != PhaseAwaitingPromotion || s.Recipe == nil {
		return ""
	}
	return s.Recipe.HandOver
}

// HeldBackReason is the reason of conditions Ready and Reconciling of a version that waits until other pools have shown that the day's versions
// are good.
const HeldBackReason = "HeldBack"

// HeldBack reports whether the version waits for other pools, and not for a person.
func (s *PrototypeStatus) HeldBack() bool {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == ConditionReady {
			return s.Phase == PhaseAwaitingPromotion && c.Reason == HeldBackReason
		}
	}
	return false
}

// RecipeStatus lists the changes of a promotion.
type RecipeStatus struct {
	// From and To are the image before and after, in the cloud's notation.
	From string `json:"from"`
	To   string `json:"to"`
	// Removes lists removed fields of the recipe, Keeps lists similar fields that stay.
	// +optional
	// +listType=atomic
	Removes []string `json:"removes,omitempty"`
	// +optional
	// +listType=atomic
	Keeps []string `json:"keeps,omitempty"`
	// Contents is the difference from the contents of the version in the recipe, in one line. Absent if unknown.
	// +optional
	Contents string `json:"contents,omitempty"`
	// HandOver is the action for a user, if another tool owns the recipe: the tool must point the pool at the version.
	// +optional
	HandOver string `json:"handOver,omitempty"`
}

// DonorStatus says how long the donor was away.
type DonorStatus struct {
	// ReservedAt is when the capture reserved the donor.
	// +optional
	ReservedAt *metav1.MicroTime `json:"reservedAt,omitempty"`
	// ReleasedAt is when the donor was released, which returns a drained donor to service.
	// +optional
	ReleasedAt *metav1.MicroTime `json:"releasedAt,omitempty"`
	// State of the donor at the last check. After the release Kamino checks no further.
	// +optional
	State DonorState `json:"state,omitempty"`
	// FrozenFor is how long writers to the root file system stood at the most, for method Copy. 0s: only a flush.
	// +optional
	FrozenFor *metav1.Duration `json:"frozenFor,omitempty"`
}

// DonorState is the state of a donor.
// +kubebuilder:validation:Enum=Ready;NotReady;Off;NodeGone;Gone;Removed
type DonorState string

const (
	// DonorReady: the kubelet reports Ready, after a change of the disk under another boot.
	DonorReady DonorState = "Ready"
	// DonorNotReady: the instance runs, and the kubelet does not report Ready.
	DonorNotReady DonorState = "NotReady"
	// DonorOff: the instance does not run.
	DonorOff DonorState = "Off"
	// DonorNodeGone: the instance runs without a Node.
	DonorNodeGone DonorState = "NodeGone"
	// DonorGone: the instance is gone.
	DonorGone DonorState = "Gone"
	// DonorRemoved: an earlier version of Kamino removed the instance.
	DonorRemoved DonorState = "Removed"
)

// Failure says why a capture ended without a new recipe.
type Failure struct {
	// Reason in CamelCase, from a closed set: https://github.com/kamino-dev/kamino/blob/main/docs/troubleshooting/reasons.md
	Reason string `json:"reason"`
	// Message names the object, the problem and the remedy.
	Message string `json:"message"`
	// CloudError is the error text of the cloud, if the cloud refused a request.
	// +optional
	CloudError string `json:"cloudError,omitempty"`
}
