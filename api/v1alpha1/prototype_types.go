package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Prototype is one capture and the image version that comes of it. Its spec is the decision, written
// before the first effect; its status is a report.
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
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image.id`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 230",message="name must have at most 230 characters: names of pods and snapshots are made from it"
type Prototype struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the decision. It cannot be changed: delete the Prototype to stop a capture.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is the record of a decision and cannot be changed: delete this Prototype and create another"
	Spec PrototypeSpec `json:"spec"`

	// Status is a report. Losing it costs a longer look at the world, nothing else.
	// +optional
	Status PrototypeStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object, which are left out of it. It is never stored itself.
	Unreadable Unreadable `json:"-"`
}

// PrototypeList is a list of Prototypes.
// +kubebuilder:object:root=true
type PrototypeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Prototype `json:"items"`
}

// PrototypeSpec names what is captured and how.
// +kubebuilder:validation:XValidation:rule="!has(self.settings) || !has(self.settings.aws) || self.donor.providerID.startsWith('aws://')",message="settings.aws is for nodes of AWS, and the donor is of another cloud: leave settings.aws out"
// +kubebuilder:validation:XValidation:rule="!has(self.settings) || !has(self.settings.azure) || self.donor.providerID.startsWith('azure://')",message="settings.azure is for nodes of Azure, and the donor is of another cloud: leave settings.azure out"
type PrototypeSpec struct {
	// Pool whose next nodes are to be copies of the donor: the cloud's own name of it, such as a scale set's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	Pool string `json:"pool"`

	// PoolID is the pool's own ID in its cloud, such as a scale set's resource ID. It tells the pool where an instance's
	// ID does not. Whoever decides writes it; without it, the pool is the one that the donor's instance belongs to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PoolID string `json:"poolID,omitempty"`

	// Version that the image gets: the day of the decision in UTC, as YYYY.MM.DD, and two more digits from 02 on for
	// a further version of the day, as YYYY.MM.DD02. A month or a day is written with two digits.
	// +kubebuilder:validation:Pattern=`^[0-9]{4}\.(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])(0[2-9]|[1-9][0-9])?$`
	Version string `json:"version"`

	// Donor is the node whose OS disk is captured.
	Donor Donor `json:"donor"`

	// Settings that the capture is done with.
	// +optional
	// +kubebuilder:default={}
	Settings Settings `json:"settings,omitempty"`
}

// Donor names a node and its instance.
type Donor struct {
	// NodeName of the donor.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// ProviderID of the donor at the decision (Node.spec.providerID). It ties the node to its instance
	// and lets the instance be given back even when the Node object is gone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[a-z]+://.+`
	ProviderID string `json:"providerID"`
}

// Phase says in one word what a capture is doing. It is for people: decide by conditions.
// +kubebuilder:validation:Enum=Pending;Preflight;Reserving;Draining;Generalizing;Stopping;Snapshotting;Starting;WaitingReady;Growing;Removing;Releasing;Publishing;Trying;AwaitingPromotion;Promoting;Retiring;ScalingOut;GivingBack;Succeeded;Failed
type Phase string

// The phases in the order of a capture when nothing goes wrong.
const (
	PhasePending      Phase = "Pending"
	PhasePreflight    Phase = "Preflight"
	PhaseReserving    Phase = "Reserving"
	PhaseDraining     Phase = "Draining"
	PhaseGeneralizing Phase = "Generalizing"
	PhaseStopping     Phase = "Stopping"
	PhaseSnapshotting Phase = "Snapshotting"
	PhaseStarting     Phase = "Starting"
	PhaseWaitingReady Phase = "WaitingReady"
	// PhaseGrowing has the pool grow by the node that takes the place of a donor which does not return.
	PhaseGrowing Phase = "Growing"
	// PhaseRemoving takes such a donor out of its pool, whether the capture goes well or not.
	PhaseRemoving   Phase = "Removing"
	PhaseReleasing  Phase = "Releasing"
	PhasePublishing Phase = "Publishing"
	// PhaseTrying judges a node that was built from the version.
	PhaseTrying Phase = "Trying"
	// PhaseAwaitingPromotion waits for a person to promote the version.
	PhaseAwaitingPromotion Phase = "AwaitingPromotion"
	PhasePromoting         Phase = "Promoting"
	PhaseRetiring          Phase = "Retiring"
	PhaseScalingOut        Phase = "ScalingOut"
	// PhaseGivingBack is a capture that has failed or is being deleted and still holds something.
	PhaseGivingBack Phase = "GivingBack"
	PhaseSucceeded  Phase = "Succeeded"
	PhaseFailed     Phase = "Failed"
)

// Condition types. Ready, Reconciling and Stalled are those of kstatus.
const (
	// ConditionReady is True once the pool's recipe points at the version, False when the capture failed,
	// Unknown while it runs.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the capture works.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the capture has failed, or cannot go on until somebody mends what its message names.
	ConditionStalled = "Stalled"
	// ConditionDegraded is True on a PrototypePolicy while a capture that is wanted is refused.
	ConditionDegraded = "Degraded"
	// ConditionDonorInService is False while the capture holds the donor.
	ConditionDonorInService = "DonorInService"
	// ConditionGeneralized is True once the proof of the generalization is there.
	ConditionGeneralized = "Generalized"
	// ConditionPublished is True once the image version is complete.
	ConditionPublished = "Published"
	// ConditionTried is True once the version has passed its trial, False when it failed it, Unknown while it is tried. Absent
	// where nothing is tried.
	ConditionTried = "Tried"
	// ConditionReversible is False where a rollback does not lead back to what the recipe named before: a pool's first
	// promotion. Absent otherwise.
	ConditionReversible = "Reversible"
)

// PrototypeStatus reports what a capture has done.
type PrototypeStatus struct {
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase of the capture, for people.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Progress of the phase, such as "pods left: 3" or "replicating 40%", for people.
	// +optional
	Progress string `json:"progress,omitempty"`

	// Conditions: Ready, Reconciling, Stalled, DonorInService, Generalized, Published, Tried, Reversible.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="!has(self.observedGeneration) || self.observedGeneration <= 9007199254740991",message="observedGeneration must be at most 9007199254740991"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Steps that the capture has entered, in order, each with its times.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitempty"`

	// Image is the version once there is one.
	// +optional
	Image *ImageStatus `json:"image,omitempty"`

	// Trial of the version. Absent where nothing is tried.
	// +optional
	Trial *TrialStatus `json:"trial,omitempty"`

	// Recipe tells what the promotion changes in the pool's recipe, from shortly before it is done.
	// +optional
	Recipe *RecipeStatus `json:"recipe,omitempty"`

	// Donor says how long the donor was away.
	// +optional
	Donor *DonorStatus `json:"donor,omitempty"`

	// Failure says why the capture ended without a new recipe.
	// +optional
	Failure *Failure `json:"failure,omitempty"`

	// Retired lists versions that this capture removed.
	// +optional
	// +listType=atomic
	Retired []string `json:"retired,omitempty"`

	// SavedRecipe names the Secret that holds what the recipe lost, as namespace/name.
	// +optional
	SavedRecipe string `json:"savedRecipe,omitempty"`
}

// Step is one phase of a capture and when it ran.
type Step struct {
	// Phase that this step is.
	Phase Phase `json:"phase"`
	// StartedAt is when the capture entered it.
	StartedAt metav1.MicroTime `json:"startedAt"`
	// FinishedAt is when the capture left it. Absent while it runs.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
}

// TrialResult is what a check, or a trial, has come to.
// +kubebuilder:validation:Enum=Pending;Passed;Failed;Inconclusive;Skipped
type TrialResult string

const (
	// TrialPending: nobody can say yet.
	TrialPending TrialResult = "Pending"
	TrialPassed  TrialResult = "Passed"
	TrialFailed  TrialResult = "Failed"
	// TrialInconclusive: nobody will be able to say in this attempt, and the version is not to blame.
	TrialInconclusive TrialResult = "Inconclusive"
	// TrialSkipped: there was nothing to check, or nobody asked for it.
	TrialSkipped TrialResult = "Skipped"
)

// TrialStatus tells how the trial of the version stands.
type TrialStatus struct {
	// Mode is where the trial node is built.
	Mode TrialMode `json:"mode"`
	// Result of the trial.
	Result TrialResult `json:"result"`
	// Message is that of the check that decided, or what is waited for.
	// +optional
	Message string `json:"message,omitempty"`
	// Attempt is which one it is. One that could not tell is followed by another.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Attempt int32 `json:"attempt,omitempty"`
	// StartedAt is when the first attempt began, FinishedAt when there was a verdict.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// Node and Instance of the trial.
	// +optional
	Node string `json:"node,omitempty"`
	// NodeUID is the UID of the Node that is judged.
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// +optional
	Instance string `json:"instance,omitempty"`
	// Checks, each with what it found, in their order.
	// +optional
	// +listType=map
	// +listMapKey=name
	Checks []TrialCheck `json:"checks,omitempty"`
	// Seen is what the trial node says of itself.
	// +optional
	Seen *TrialNode `json:"seen,omitempty"`
}

// TrialCheck is one thing that is looked at.
type TrialCheck struct {
	// Name of the check (docs/trial.md).
	Name string `json:"name"`
	// Result of it.
	Result TrialResult `json:"result"`
	// Message says what it found, or why it has not yet.
	// +optional
	Message string `json:"message,omitempty"`
	// At is when the result became this one.
	// +optional
	At *metav1.MicroTime `json:"at,omitempty"`
}

// TrialNode is what a trial node says of itself.
type TrialNode struct {
	// +optional
	OSImage string `json:"osImage,omitempty"`
	// +optional
	Kernel string `json:"kernel,omitempty"`
	// +optional
	Kubelet string `json:"kubelet,omitempty"`
	// +optional
	Runtime string `json:"runtime,omitempty"`
	// Images is how many container images were on its disk when it was first Ready.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Images int32 `json:"images,omitempty"`
	// ReadyAfter is how long its instance ran before it was Ready.
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
}

// ImageStatus tells the image version.
type ImageStatus struct {
	// ID of the image version in its cloud.
	ID string `json:"id"`
	// ReplicationPercent is the cloud's own word on how far the version is, 0 to 100.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	ReplicationPercent int32 `json:"replicationPercent,omitempty"`
	// Proof of the generalization, as it stands in the image version's tags.
	// +optional
	Proof string `json:"proof,omitempty"`
	// Verified tells what the proof stands for.
	// +optional
	Verified *Verified `json:"verified,omitempty"`
}

// Verified tells what was applied to and looked for on the disk that an image version was made of.
type Verified struct {
	// Profile and its version. The version ends in a digest of all rules, those that the user added included.
	Profile        Profile `json:"profile"`
	ProfileVersion string  `json:"profileVersion"`
	// ToolVersion of the binary that ran on the donor.
	// +optional
	ToolVersion string `json:"toolVersion,omitempty"`
	// Rules that were tried and found met, and how many of them changed something.
	// +kubebuilder:validation:Maximum=9007199254740991
	Rules int64 `json:"rules"`
	// +kubebuilder:validation:Maximum=9007199254740991
	Acted int64 `json:"acted"`
	// Files and Bytes that were searched for keys, tokens and identities.
	// +kubebuilder:validation:Maximum=9007199254740991
	Files int64 `json:"files"`
	// +kubebuilder:validation:Maximum=9007199254740991
	Bytes int64 `json:"bytes"`
	// Identities of the donor that were looked for.
	// +kubebuilder:validation:Maximum=9007199254740991
	Identities int64 `json:"identities"`
	// Findings that may not stay: always 0 for a version that exists.
	// +kubebuilder:validation:Maximum=9007199254740991
	Findings int64 `json:"findings"`
	// Kept is how many findings stay for a reason that the manifest gives.
	// +kubebuilder:validation:Maximum=9007199254740991
	Kept int64 `json:"kept"`
	// Credentials are the client certificates that stay on the disk.
	// +optional
	// +listType=atomic
	Credentials []Credential `json:"credentials,omitempty"`
	// RulesDigest of the rules that the user added; absent without any.
	// +optional
	RulesDigest string `json:"rulesDigest,omitempty"`
	// ManifestDigest of /var/lib/kamino/generalize.json on the disk.
	ManifestDigest string `json:"manifestDigest"`
	// At is when the run ended, by the donor's clock.
	At metav1.Time `json:"at"`
}

// Terminal tells whether the capture has ended, well or not.
func (s *PrototypeStatus) Terminal() bool {
	return s.Phase == PhaseSucceeded || s.Phase == PhaseFailed
}

// HandsOver is what a person has to do with another tool so that the pool builds its nodes from the version; empty where Kamino
// points the pool at it, and where that is done.
func (s *PrototypeStatus) HandsOver() string {
	if s.Phase != PhaseAwaitingPromotion || s.Recipe == nil {
		return ""
	}
	return s.Recipe.HandOver
}

// Tag is what was verified in the form that snapshots and image versions carry, at most 256 characters:
// words as name=value.
func (v *Verified) Tag() string {
	return fmt.Sprintf("rules=%d acted=%d files=%d bytes=%d identities=%d findings=%d kept=%d tool=%.64s",
		v.Rules, v.Acted, v.Files, v.Bytes, v.Identities, v.Findings, v.Kept, v.ToolVersion)
}

// RecipeStatus tells what a promotion changes.
type RecipeStatus struct {
	// From and To are the image before and after, as the cloud writes them.
	From string `json:"from"`
	To   string `json:"to"`
	// Removes names what the recipe loses, Keeps what of the same kind stays.
	// +optional
	// +listType=atomic
	Removes []string `json:"removes,omitempty"`
	// +optional
	// +listType=atomic
	Keeps []string `json:"keeps,omitempty"`
	// HandOver is what a person does so that the pool builds its nodes from the version, where another tool writes its recipe.
	// +optional
	HandOver string `json:"handOver,omitempty"`
}

// DonorStatus says how long the donor was away.
type DonorStatus struct {
	// ReservedAt is when the capture began to hold the donor, or took one out of service whose successor it had awaited.
	// +optional
	ReservedAt *metav1.MicroTime `json:"reservedAt,omitempty"`
	// ReleasedAt is when the donor was given back, or was gone.
	// +optional
	ReleasedAt *metav1.MicroTime `json:"releasedAt,omitempty"`
	// State in which the donor was when it was last looked at. Once it is given back it is not looked at any more.
	// +optional
	State DonorState `json:"state,omitempty"`
}

// DonorState is what a look finds a donor to be.
// +kubebuilder:validation:Enum=Ready;NotReady;Off;NodeGone;Gone;Removed
type DonorState string

const (
	// DonorReady: its kubelet says so, and after its disk was treated under another boot.
	DonorReady DonorState = "Ready"
	// DonorNotReady: its instance runs, and its kubelet does not say that it is Ready.
	DonorNotReady DonorState = "NotReady"
	// DonorOff: its instance does not run.
	DonorOff DonorState = "Off"
	// DonorNodeGone: its instance runs, and there is no Node of it.
	DonorNodeGone DonorState = "NodeGone"
	// DonorGone: there is no instance of it any more.
	DonorGone DonorState = "Gone"
	// DonorRemoved: the capture had its instance removed, because it does not return.
	DonorRemoved DonorState = "Removed"
)

// Failure says why a capture ended without a new recipe.
type Failure struct {
	// Reason in one CamelCase word, from a closed set (docs/prototype.md).
	Reason string `json:"reason"`
	// Message says what happened to which object, and what to do.
	Message string `json:"message"`
	// CloudError is the cloud's own text, where it was the cloud that refused.
	// +optional
	CloudError string `json:"cloudError,omitempty"`
}
