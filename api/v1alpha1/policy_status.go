package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of a policy's conditions. Ready is True while the policy can do its work for every pool; Reconciling
// is True while a capture of its runs or waits; Stalled is True when it cannot go on until somebody mends what
// the message names; Degraded is True while a capture that is wanted is refused, with the reason of the refusal: it
// is tried again by itself, in vain until somebody mends what the message names.
const (
	// PolicyWatching: nothing stands in the way; each pool's decision is in status.pools.
	PolicyWatching = "Watching"
	// PolicyCapturing: a capture of one of its pools runs.
	PolicyCapturing = "Capturing"
	// PolicySuspended: spec.suspend is set.
	PolicySuspended = "Suspended"
	// PolicyDryRun: spec.dryRun is set, so decisions are reported and nothing is captured.
	PolicyDryRun = "DryRun"
	// PolicyNoPoolMatches: no pool of the cluster is meant, or a pool that is named does not exist.
	PolicyNoPoolMatches = "NoPoolMatches"
	// PolicyPoolClaimedTwice: another policy is for one of its pools as well; nothing is decided for that pool.
	PolicyPoolClaimedTwice = "PoolClaimedTwice"
	// PolicyScheduleInvalid: cron or a time zone of the schedule cannot be read.
	PolicyScheduleInvalid = "ScheduleInvalid"
	// PolicyScheduleNeverFires: no moment is ever allowed by cron and blackouts.
	PolicyScheduleNeverFires = "ScheduleNeverFires"
	// PolicyExpressionInvalid: refuse or score does not compile.
	PolicyExpressionInvalid = "ExpressionInvalid"
	// PolicyUnreadable: the stored spec has a field that this version of Kamino cannot decode.
	PolicyUnreadable = "Unreadable"
	// PolicyTooManyFailures: captures of a pool failed as often as failures.limit allows.
	PolicyTooManyFailures = "TooManyFailures"
	// PolicyCloudUnavailable: the cloud cannot be asked; its own text is in the message.
	PolicyCloudUnavailable = "CloudUnavailable"
	// PolicyManyImages: the nodes of a pool were built from nearly as many images as its cloud allows. Captures go on
	// until one more would be the last.
	PolicyManyImages = "ManyImages"
	// PolicyCurrentVersionMissing: the recipe of a pool names a version that does not exist, so that it can't grow.
	PolicyCurrentVersionMissing = "CurrentVersionMissing"
	// PolicyNotRebuilt: a node that the policy wants rebuilt is not; the reason and a remedy are in the message.
	PolicyNotRebuilt = "NotRebuilt"
	// PolicyRollingBack: a pool is on its way back from a version, and its recipe still names it.
	PolicyRollingBack = "RollingBack"
	// PolicyWentBack: a pool went back from a version by itself, and no person has acknowledged it.
	PolicyWentBack = "WentBack"
	// PolicyPreflightFailed: the API server does not say what speaks for or against a capture; its text is in the
	// message.
	PolicyPreflightFailed = "PreflightFailed"
)

// PrototypePolicyStatus reports what the policy sees and has decided.
type PrototypePolicyStatus struct {
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready, Reconciling, Stalled, Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="!has(self.observedGeneration) || self.observedGeneration <= 9007199254740991",message="observedGeneration must be at most 9007199254740991"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// PoolCount is the number of pools that the policy decides for.
	// +kubebuilder:default=0
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	PoolCount int32 `json:"poolCount,omitempty"`

	// NextRun is the earliest of the pools' next runs.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`

	// Pools that the policy decides for, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=id
	Pools []PoolStatus `json:"pools,omitempty"`
}

// PoolStatus reports on one pool of a policy.
type PoolStatus struct {
	// Name of the pool.
	Name string `json:"name"`

	// ID of the pool in its cloud. Two pools of one name are told apart by it.
	ID string `json:"id"`

	// CurrentVersion that the recipe names. Absent while it names no version of the pool's own.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// ImageBuiltAt is when the current version's donor was captured.
	// +optional
	ImageBuiltAt *metav1.Time `json:"imageBuiltAt,omitempty"`

	// NewestPatch is the latest patch that any node of the pool carries.
	// +optional
	NewestPatch *metav1.Time `json:"newestPatch,omitempty"`

	// Nodes of the pool.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Nodes int32 `json:"nodes"`

	// Candidates among them.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Candidates int32 `json:"candidates"`

	// Images that the pool's nodes were built from, with what the recipe names, at the last count; absent where the
	// cloud has no limit to it.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Images int32 `json:"images,omitempty"`

	// Rebuild is what is decided about nodes of its oldest image, and why; absent where the policy rebuilds none.
	// +optional
	Rebuild *PoolDecision `json:"rebuild,omitempty"`

	// Probation tells how the nodes of the current version join. Absent while the recipe names no version of the pool's own.
	// +optional
	Probation *ProbationStatus `json:"probation,omitempty"`

	// Refusals of the others, counted by the first reason of each: candidates and refusals add up to nodes.
	// +optional
	// +listType=map
	// +listMapKey=reason
	Refusals []RefusalCount `json:"refusals,omitempty"`

	// Donor that is captured, or would be.
	// +optional
	Donor string `json:"donor,omitempty"`

	// Prototype of the capture that runs.
	// +optional
	Prototype string `json:"prototype,omitempty"`

	// Decision about the pool, and why.
	// +optional
	Decision *PoolDecision `json:"decision,omitempty"`

	// LastResult is how the pool's last capture ended.
	// +optional
	LastResult *CaptureResult `json:"lastResult,omitempty"`

	// NextRun is when a capture may begin next, or one that was refused is tried again. Absent if one may begin
	// now, and if none may until a person acts.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`

	// Failures in a row since the last capture that succeeded.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Failures int32 `json:"failures,omitempty"`
}

// ProbationStatus tells how the nodes of a pool's current version join, and what follows.
type ProbationStatus struct {
	// Version that the recipe names.
	Version string `json:"version"`
	// State in one CamelCase word, from a closed set (docs/probation.md).
	State string `json:"state"`
	// Message says it in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Joined, Failed and Waiting nodes of the version.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Joined int32 `json:"joined,omitempty"`
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Failed int32 `json:"failed,omitempty"`
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Waiting int32 `json:"waiting,omitempty"`
	// MedianReady is how long instances of the version ran until their nodes were Ready.
	// +optional
	MedianReady *metav1.Duration `json:"medianReady,omitempty"`
	// Suspect is the version that the pool went back from by itself, or is rolling back from, until a person has acknowledged it.
	// +optional
	Suspect string `json:"suspect,omitempty"`
	// WentBackAt is when it did; absent while the recipe still names Suspect.
	// +optional
	WentBackAt *metav1.Time `json:"wentBackAt,omitempty"`
	// Joins are those of the version that decide, for whoever goes on with the watch: the first and the last that were judged,
	// those that are late, and those whose Node must not be taken for another one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Joins []JoinStatus `json:"joins,omitempty"`
}

// JoinStatus is what became of one node.
type JoinStatus struct {
	// Instance as its cloud names it.
	Instance string `json:"instance"`
	// Node is the Node's name; absent if there never was one.
	// +optional
	Node string `json:"node,omitempty"`
	// NodeUID is the UID of the Node that was seen first.
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// RunningSince is when the instance was made.
	RunningSince metav1.Time `json:"runningSince"`
	// Outcome in one CamelCase word: Joined, Failed, Waiting, or Uncounted where another client has deleted the Node.
	Outcome string `json:"outcome"`
	// Message says why it failed, or is not counted.
	// +optional
	Message string `json:"message,omitempty"`
	// ReadyAfter is how long its instance ran before the node was Ready.
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// LateSince is since when looks have found it late.
	// +optional
	LateSince *metav1.Time `json:"lateSince,omitempty"`
}

// RefusalCount counts the nodes that one rule refuses.
type RefusalCount struct {
	// Reason in one CamelCase word, from a closed set (docs/policy.md).
	Reason string `json:"reason"`
	// Count of nodes.
	// +kubebuilder:validation:Maximum=2147483647
	Count int32 `json:"count"`
}

// PoolDecision says what is to be done about a pool, and why.
type PoolDecision struct {
	// Reason in one CamelCase word, from a closed set (docs/policy.md).
	Reason string `json:"reason"`
	// Message says it in a sentence, with what to do about it where there is something.
	Message string `json:"message"`
	// Remedy is what to do about the reason; absent where there is nothing to do, or nobody knows.
	// +optional
	Remedy string `json:"remedy,omitempty"`
}

// CaptureResult is how a capture ended.
type CaptureResult struct {
	// Prototype that it was.
	Prototype string `json:"prototype"`
	// Version that it made, or was to make.
	Version string `json:"version"`
	// Result is the phase that it ended in: Succeeded, or Failed.
	Result Phase `json:"result"`
	// At is when it ended.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// Message says what failed, where it did.
	// +optional
	Message string `json:"message,omitempty"`
}

// Defaults of a PrototypePolicySpec.
const (
	DefaultMinReadyTime  = time.Hour
	DefaultMinCandidates = 1
	DefaultMaxConcurrent = 1
	DefaultAtImages      = 8
	DefaultFailureLimit  = 3
	DefaultBackoff       = time.Hour
	DefaultWindow        = 2 * time.Hour
	DefaultTimeZone      = "UTC"
)

// Defaulted returns the spec with every absent value as the API server would fill it in. It serves callers
// that have no API server in between.
func (s PrototypePolicySpec) Defaulted() PrototypePolicySpec {
	if s.Patched == (PatchedSettings{}) {
		s.Patched.Preset = PresetKured
	}
	if s.Selection.MinReadyTime == nil {
		s.Selection.MinReadyTime = &metav1.Duration{Duration: DefaultMinReadyTime}
	}
	if s.Selection.MinCandidates == 0 {
		s.Selection.MinCandidates = DefaultMinCandidates
	}
	if s.MaxConcurrent == 0 {
		s.MaxConcurrent = DefaultMaxConcurrent
	}
	if s.Rebuild != nil && s.Rebuild.AtImages == 0 {
		s.Rebuild = &RebuildSettings{AtImages: DefaultAtImages}
	}
	if s.Failures.Limit == 0 {
		s.Failures.Limit = DefaultFailureLimit
	}
	if s.Failures.Backoff == nil {
		s.Failures.Backoff = &metav1.Duration{Duration: DefaultBackoff}
	}
	s.Rollback = s.Rollback.Defaulted()
	s.Settings = s.Settings.Defaulted()
	return s
}

// Defaulted returns the settings with every absent value as the API server would fill it in.
func (s RollbackSettings) Defaulted() RollbackSettings {
	if s.Mode == "" {
		s.Mode = RollbackAutomatic
	}
	for _, limit := range []struct {
		value    *metav1.Duration
		standard time.Duration
	}{
		{&s.JoinTimeout, 14 * time.Minute}, {&s.UnreadyTimeout, 5 * time.Minute},
		{&s.Watch, time.Hour}, {&s.DaemonSetTimeout, 10 * time.Minute},
	} {
		if limit.value.Duration == 0 {
			limit.value.Duration = limit.standard
		}
	}
	return s
}

// Annotations are the names of the two annotations by which a patched node is told.
func (s PatchedSettings) Annotations() (mostRecentPatch, rebootPending string) {
	switch s.Preset {
	case PresetKamino:
		return PatchedAtAnnotation, RebootPendingAnnotation
	case PresetKured:
		return KuredRebootNeededAnnotation, KuredRebootInProgressAnnotation
	}
	if s.MostRecentPatch == "" && s.RebootPending == "" {
		return KuredRebootNeededAnnotation, KuredRebootInProgressAnnotation
	}
	return s.MostRecentPatch, s.RebootPending
}
