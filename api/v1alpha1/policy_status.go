package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of a policy's conditions. Stalled is True if the policy needs a person, who must follow the message. Degraded is True
// while a wanted capture is refused: Kamino tries again, but a person must remove the cause.
const (
	// PolicyWatching: there is no obstacle; each pool's decision is in status.pools.
	PolicyWatching = "Watching"
	// PolicyCapturing: a capture runs in a pool of the policy.
	PolicyCapturing = "Capturing"
	// PolicySuspended: spec.suspend is set.
	PolicySuspended = "Suspended"
	// PolicyDryRun: spec.dryRun is set, so decisions are reported and nothing is captured.
	PolicyDryRun = "DryRun"
	// PolicyNoPoolMatches: the policy matches no pool of the cluster, or a named pool does not exist.
	PolicyNoPoolMatches = "NoPoolMatches"
	// PolicyPoolClaimedTwice: another policy matches a pool of this policy; Kamino decides nothing for that pool.
	PolicyPoolClaimedTwice = "PoolClaimedTwice"
	// PolicyScheduleInvalid: cron or a time zone of the schedule cannot be read.
	PolicyScheduleInvalid = "ScheduleInvalid"
	// PolicyScheduleNeverFires: no moment is ever allowed by cron and blackouts.
	PolicyScheduleNeverFires = "ScheduleNeverFires"
	// PolicyExpressionInvalid: refuse or score does not compile.
	PolicyExpressionInvalid = "ExpressionInvalid"
	// PolicyUnreadable: this version of Kamino cannot decode a field of the stored spec.
	PolicyUnreadable = "Unreadable"
	// PolicyTooManyFailures: captures of a pool failed as often as failures.limit allows.
	PolicyTooManyFailures = "TooManyFailures"
	// PolicyCloudUnavailable: the cloud cannot be asked; its own text is in the message.
	PolicyCloudUnavailable = "CloudUnavailable"
	// PolicyPatchesNotChecked: no node of a pool could check its package repositories, so the pending patches are unknown.
	PolicyPatchesNotChecked = "PatchesNotChecked"
	// PolicyPatchesQuarantined: the pending patches of a pool failed on a pioneer, and Kamino does not try them again.
	PolicyPatchesQuarantined = "PatchesQuarantined"
	// PolicyManyImages: the nodes of a pool were built from nearly as many images as its cloud allows. Captures go on
	// until one more would be the last.
	PolicyManyImages = "TooManyImages"
	// PolicyCurrentVersionMissing: the recipe of a pool names a version that does not exist, so the pool cannot grow.
	PolicyCurrentVersionMissing = "CurrentVersionMissing"
	// PolicyNotRebuilt: a node that the policy wants rebuilt is not; the reason and a remedy are in the message.
	PolicyNotRebuilt = "NotRebuilt"
	// PolicyRollingBack: a rollback of a pool is running, and the pool's recipe still names the bad version.
	PolicyRollingBack = "RollingBack"
	// PolicyRolledBack: Kamino rolled back a pool automatically, and no person has acknowledged the rollback.
	PolicyRolledBack = "RolledBack"
	// PolicyPreflightFailed: the API server did not answer the preflight; the message holds the error.
	PolicyPreflightFailed = "PreflightFailed"
)

// PrototypePolicyStatus reports the findings and decisions of the policy.
type PrototypePolicyStatus struct {
	// ObservedGeneration is the generation that the status describes.
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

	// PoolCount is the number of pools of the policy.
	// +kubebuilder:default=0
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	PoolCount int32 `json:"poolCount,omitempty"`

	// NextRun is the earliest of the pools' next runs.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`

	// Pools of the policy, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=id
	Pools []PoolStatus `json:"pools,omitempty"`
}

// PoolStatus is the status of a pool of the policy.
type PoolStatus struct {
	// Name of the pool.
	Name string `json:"name"`

	// ID of the pool in its cloud. The ID distinguishes pools of the same name.
	ID string `json:"id"`

	// CurrentVersion is the version that the recipe names. Absent if the recipe names no version of the pool.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// ImageBuiltAt is when the current version's donor was captured.
	// +optional
	ImageBuiltAt *metav1.Time `json:"imageBuiltAt,omitempty"`

	// NewestPatch is the time of the latest patch of any node of the pool.
	// +optional
	NewestPatch *metav1.Time `json:"newestPatch,omitempty"`

	// Nodes of the pool.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Nodes int32 `json:"nodes"`

	// Candidates is the number of nodes that can be donors.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Candidates int32 `json:"candidates"`

	// Images is the number of different images of the nodes and the recipe, at the last count. Absent if the cloud has
	// no limit for images.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Images int32 `json:"images,omitempty"`

	// Rebuild is the decision about nodes of the oldest image, with the reason. Absent if the policy rebuilds no
	// nodes.
	// +optional
	Rebuild *PoolDecision `json:"rebuild,omitempty"`

	// Patches has the pending patches, as a node of the pool reported. Absent without spec.pioneer.
	// +optional
	Patches *PatchesStatus `json:"patches,omitempty"`

	// JoinHealth shows how nodes of the current version join. Absent if the recipe names no version of the pool.
	// +optional
	JoinHealth *JoinHealthStatus `json:"joinHealth,omitempty"`

	// Refusals counts the other nodes by their first reason. Candidates plus refusals equal nodes.
	// +optional
	// +listType=map
	// +listMapKey=reason
	Refusals []RefusalCount `json:"refusals,omitempty"`

	// Donor of the running capture, or the preferred node for the next capture.
	// +optional
	Donor string `json:"donor,omitempty"`

	// Prototype of the running capture.
	// +optional
	Prototype string `json:"prototype,omitempty"`

	// Decision about the pool, and why.
	// +optional
	Decision *PoolDecision `json:"decision,omitempty"`

	// LastResult is how the pool's last capture ended.
	// +optional
	LastResult *CaptureResult `json:"lastResult,omitempty"`

	// NextRun is the earliest time of the next capture or the next retry. Absent if a capture may start now, if a
	// capture is running, or if the policy waits for a user.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`

	// Failures in a row since the last successful capture.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Failures int32 `json:"failures,omitempty"`
}

// JoinHealthStatus shows how the nodes of a pool's current version join, and the consequences.
type JoinHealthStatus struct {
	// Version in the recipe.
	Version string `json:"version"`
	// State in CamelCase, from a closed set: https://github.com/kamino-dev/kamino/blob/main/docs/troubleshooting/reasons.md
	State string `json:"state"`
	// Message explains the state.
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
	// Cohorts compares all nodes of the version with the pool's other nodes, such as "3 of 14 Ready, before: 40 of 41".
	// +optional
	Cohorts string `json:"cohorts,omitempty"`
	// Suspect is the version from which the pool rolled back automatically, or is rolling back, until a user
	// acknowledges the rollback.
	// +optional
	Suspect string `json:"suspect,omitempty"`
	// RolledBackAt is the time of the automatic rollback. Absent while the recipe still names Suspect.
	// +optional
	RolledBackAt *metav1.Time `json:"rolledBackAt,omitempty"`
	// Joins has the nodes that the controller must remember: the first and the last judged node, late nodes, and nodes
	// whose identity must not be confused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Joins []JoinStatus `json:"joins,omitempty"`
}

// JoinStatus is the result for a node.
type JoinStatus struct {
	// Instance is the ID in the cloud.
	Instance string `json:"instance"`
	// Node is the name of the Node; absent if no Node appeared.
	// +optional
	Node string `json:"node,omitempty"`
	// NodeUID is the UID of the first Node of the instance.
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// RunningSince is when the cloud created the instance.
	RunningSince metav1.Time `json:"runningSince"`
	// Outcome in CamelCase: Joined, Failed, Waiting, or Uncounted if another client has deleted the Node.
	Outcome string `json:"outcome"`
	// Message explains why the node failed, or is not counted.
	// +optional
	Message string `json:"message,omitempty"`
	// ReadyAfter is the time from the start of the instance to a Ready node.
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// OverdueSince is the time since which the node is overdue.
	// +optional
	OverdueSince *metav1.Time `json:"overdueSince,omitempty"`
}

// RefusalCount counts the nodes refused by a rule.
type RefusalCount struct {
	// Reason in CamelCase, from a closed set: https://github.com/kamino-dev/kamino/blob/main/docs/troubleshooting/reasons.md
	Reason string `json:"reason"`
	// Count of nodes.
	// +kubebuilder:validation:Maximum=2147483647
	Count int32 `json:"count"`
}

// PoolDecision is a decision about a pool, with the reason.
type PoolDecision struct {
	// Reason in CamelCase, from a closed set: https://github.com/kamino-dev/kamino/blob/main/docs/troubleshooting/reasons.md
	Reason string `json:"reason"`
	// Message explains the decision, with the remedy if there is a remedy.
	Message string `json:"message"`
	// Remedy is the action that removes the reason; absent if unknown or not needed.
	// +optional
	Remedy string `json:"remedy,omitempty"`
}

// CaptureResult is how a capture ended.
type CaptureResult struct {
	// Prototype of the capture.
	Prototype string `json:"prototype"`
	// Version of the capture.
	Version string `json:"version"`
	// Result is the final phase: Succeeded or Failed.
	Result Phase `json:"result"`
	// At is the end of the capture.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// Message explains a failure.
	// +optional
	Message string `json:"message,omitempty"`
}

// Defaults of a PrototypePolicySpec.
const (
	DefaultMinReadyTime  = time.Hour
	DefaultMinCandidates = 1
	DefaultMaxConcurrent = 1
	DefaultAtImages      = 8
	DefaultOutdatedAfter = 24 * time.Hour
	DefaultPerHour       = 4
	DefaultFailureLimit  = 3
	DefaultBackoff       = time.Hour
	DefaultWindow        = 2 * time.Hour
	DefaultTimeZone      = "UTC"
)

// Defaulted returns the spec with the API server's default for each absent value, for callers without an API server.
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
	if s.Rebuild != nil {
		rebuild := s.Rebuild.Defaulted()
		s.Rebuild = &rebuild
	}
	if s.Pioneer != nil {
		pioneer := s.Pioneer.Defaulted()
		s.Pioneer = &pioneer
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

// Defaulted returns the settings with the API server's default for each absent value.
func (s RebuildSettings) Defaulted() RebuildSettings {
	if s.AtImages == 0 {
		s.AtImages = DefaultAtImages
	}
	if s.Outdated == nil {
		return s
	}
	outdated := *s.Outdated
	if outdated.After == nil {
		outdated.After = &metav1.Duration{Duration: DefaultOutdatedAfter}
	}
	if outdated.PerHour == 0 {
		outdated.PerHour = DefaultPerHour
	}
	s.Outdated = &outdated
	return s
}

// Defaulted returns the settings with every absent value as the API server would fill it in.
func (s RollbackSettings) Defaulted() RollbackSettings {
	if s.Mode == "" {
		s.Mode = RollbackAutomatic
	}
	if s.JoinTimeout.Duration == 0 {
		s.JoinTimeout.Duration = 14 * time.Minute
	}
	return s
}

// Annotations are the names of the two annotations that mark a patched node.
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
