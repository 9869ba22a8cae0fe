package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrototypePolicy automates captures: the policy selects pools, defines good donors, limits when a capture may
// start, and sets the capture settings. Each decision becomes a Prototype.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=prototypepolicies,singular=prototypepolicy,shortName=protopolicy,categories=kamino
// +kubebuilder:printcolumn:name="Pools",type=integer,JSONPath=`.status.poolCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Next run",type=string,JSONPath=`.status.nextRun`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,priority=1,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type PrototypePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the policy. An empty spec is valid: the policy applies to all pools and reads kured's annotations.
	Spec PrototypePolicySpec `json:"spec"`

	// Status is a report. Kamino can rebuild a lost status.
	// +optional
	Status PrototypePolicyStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object. The object lacks these fields, and Unreadable itself is never stored.
	Unreadable Unreadable `json:"-"`
}

// PrototypePolicyList is a list of PrototypePolicies.
// +kubebuilder:object:root=true
type PrototypePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PrototypePolicy `json:"items"`
}

// PrototypePolicySpec defines pools, donors, schedule and settings.
type PrototypePolicySpec struct {
	// Pools of the policy. Default: all pools of the cluster.
	// +optional
	Pools PoolSelector `json:"pools,omitzero"`

	// Patched defines the annotations of a patched node. Default: kured's annotations.
	// +optional
	// +kubebuilder:default={preset: kured}
	Patched PatchedSettings `json:"patched,omitzero"`

	// Selection defines which patched node is a good donor.
	// +optional
	// +kubebuilder:default={}
	Selection SelectionSettings `json:"selection,omitempty"`

	// Schedule limits when a capture may start. Default: at any time.
	// +optional
	Schedule ScheduleSettings `json:"schedule,omitzero"`

	// Settings of the captures.
	// +optional
	// +kubebuilder:default={}
	Settings Settings `json:"settings,omitempty"`

	// Rebuild lets the controller rebuild nodes of the pool's oldest image from the current version: after the pool has
	// many different images, or with outdated until all nodes have the current version. Default: never.
	// +optional
	Rebuild *RebuildSettings `json:"rebuild,omitempty"`

	// Pioneer lets Kamino patch one node of the pool before all others, and capture that node. Default: another tool
	// patches the nodes.
	// +optional
	Pioneer *PolicyPioneerSettings `json:"pioneer,omitempty"`

	// Rollback defines the reaction when nodes of a version do not join.
	// +optional
	// +kubebuilder:default={}
	Rollback RollbackSettings `json:"rollback,omitzero"`

	// MaxConcurrent limits parallel captures in the whole cluster, including captures of other policies and users. A
	// node rebuild by a policy is included as a capture.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// Failures defines the reaction to failed captures.
	// +optional
	// +kubebuilder:default={}
	Failures FailureSettings `json:"failures,omitempty"`

	// Suspend stops new decisions. Running captures continue.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`

	// DryRun lets the policy decide and report, without captures.
	// +optional
	// +kubebuilder:default=false
	DryRun bool `json:"dryRun,omitempty"`
}

// RollbackMode defines whether Kamino rolls back automatically from a version whose nodes do not join.
// +kubebuilder:validation:Enum=Automatic;Off
type RollbackMode string

const (
	// RollbackAutomatic points the pool at the version before, and captures nothing in the pool until a person acknowledges
	// the rollback.
	RollbackAutomatic RollbackMode = "Automatic"
	// RollbackOff only reports the bad version.
	RollbackOff RollbackMode = "Off"
)

// RollbackSettings define when a node has failed to join, and the reaction.
type RollbackSettings struct {
	// Mode defines whether Kamino rolls back automatically. A policy with dryRun or suspend only reports, in every
	// mode.
	// +optional
	// +kubebuilder:default=Automatic
	Mode RollbackMode `json:"mode,omitempty"`

	// JoinTimeout is the maximum time from the start of an instance to a Ready node. The default is a minute less than
	// the limit after which the cluster autoscaler removes an instance. A node fails if it is late, or not Ready again,
	// for a third of JoinTimeout, or without a DaemonSet for two thirds.
	// +optional
	// +kubebuilder:default="14m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="joinTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	JoinTimeout metav1.Duration `json:"joinTimeout,omitzero"`

	// FailOnDifference also fails a node that differs from the pool's nodes of other images, by the check Differences of the
	// trial. If false, the difference is only reported. settings.trial.ignoreDifferences lists exceptions.
	// +optional
	// +kubebuilder:default=false
	FailOnDifference bool `json:"failOnDifference,omitempty"`
}

// PoolSelector selects pools. An empty selector selects all pools.
// +kubebuilder:validation:XValidation:rule="!(has(self.names) && has(self.nodeSelector))",message="use either names or nodeSelector"
type PoolSelector struct {
	// Names of the pools in the cloud, case-insensitive.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Names []string `json:"names,omitempty"`

	// NodeSelector selects each pool with at least one matching node. Every node of the pool may then be a donor.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// PatchPreset names the annotations of a known patcher.
// +kubebuilder:validation:Enum=kured;kamino
type PatchPreset string

const (
	// PresetKured reads the annotations of kured with --annotate-nodes.
	PresetKured PatchPreset = "kured"
	// PresetKamino reads the annotations of Kamino's own patcher, the contract for other patchers.
	PresetKamino PatchPreset = "kamino"
)

// PatchedSettings define the two annotations of a patched node.
// +kubebuilder:validation:XValidation:rule="has(self.preset) ? !has(self.mostRecentPatch) && !has(self.rebootPending) : has(self.mostRecentPatch) && has(self.rebootPending)",message="set either preset, or both mostRecentPatch and rebootPending"
type PatchedSettings struct {
	// Preset names the annotations of a known patcher.
	// +optional
	Preset PatchPreset `json:"preset,omitempty"`

	// MostRecentPatch is the annotation with the time (RFC 3339) of the last patch of the node that needed a reboot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	MostRecentPatch string `json:"mostRecentPatch,omitempty"`

	// RebootPending is the annotation of a node that waits for a reboot, with any value except "false".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	RebootPending string `json:"rebootPending,omitempty"`
}

// SelectionSettings define which patched node is a good donor.
type SelectionSettings struct {
	// MinReadyTime is how long a donor must have been Ready without interruption.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="minReadyTime must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MinReadyTime *metav1.Duration `json:"minReadyTime,omitempty"`

	// MinCandidates is the number of candidates that a pool needs before a capture.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinCandidates int32 `json:"minCandidates,omitempty"`

	// MaxImageAge is the age at which Kamino replaces a pool's image even without new patches; the rules about patches
	// then do not apply. A pool without a Prototype is older than every limit. Default: never.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="maxImageAge must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MaxImageAge metav1.Duration `json:"maxImageAge,omitzero"`

	// KeepFromScaleDown keeps the cluster autoscaler from removing one node of a pool: the best node that is patched and
	// not captured yet, for this time after its patch. Default: never.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="keepFromScaleDown must be a time such as 90m or 36h (days have no unit), and at most 168h"
	KeepFromScaleDown metav1.Duration `json:"keepFromScaleDown,omitzero"`

	// IgnoreNodes lists names of nodes that are never donors.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	IgnoreNodes []string `json:"ignoreNodes,omitempty"`

	// IgnoreAnnotations lists annotations. A node with such an annotation, with any value, is never a donor.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	IgnoreAnnotations []string `json:"ignoreAnnotations,omitempty"`

	// IgnoreLabels lists labels. A node with such a label, with any value, is never a donor.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	IgnoreLabels []string `json:"ignoreLabels,omitempty"`

	// Refuse is a CEL expression over `node` (the Node as JSON) and `now` (a timestamp). Kamino refuses a node if the
	// expression is true or fails.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Refuse string `json:"refuse,omitempty"`

	// Score is a CEL expression over `node` and `now` with a number as result. Kamino prefers the candidate with the
	// highest score, then the candidate with the longest time Ready.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Score string `json:"score,omitempty"`
}

// ScheduleSettings limit when a capture may start. A started capture continues at any time.
// +kubebuilder:validation:XValidation:rule="has(self.cron) || (!has(self.window) && !has(self.timeZone))",message="window and timeZone need cron: set cron, or remove window and timeZone"
type ScheduleSettings struct {
	// Cron in five fields (minute, hour, day of month, month, day of week): the times when captures may start.
	// Default: at any time.
	// +optional
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z*,/?-]+( +[0-9A-Za-z*,/?-]+){4}$`
	Cron string `json:"cron,omitempty"`

	// Window is how long after each cron time captures may start. Default: 2h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('1m')",message="window must be a time such as 90s, 30m or 36h (days have no unit), and at least 1m"
	Window metav1.Duration `json:"window,omitzero"`

	// TimeZone of cron, an IANA name. Default: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",message="timeZone must be an IANA time zone, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`

	// Blackouts are periods without new captures, even if cron allows captures.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Blackouts []Blackout `json:"blackouts,omitempty"`

	// MinInterval is the minimum time from the start of a successful capture to the next capture of the pool. Default:
	// none; in any case a policy creates at most a version per pool and day.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="minInterval must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MinInterval metav1.Duration `json:"minInterval,omitzero"`
}

// Blackout is a recurring period without new captures.
type Blackout struct {
	// Start of the blackout, as cron in five fields.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z*,/?-]+( +[0-9A-Za-z*,/?-]+){4}$`
	Start string `json:"start"`

	// Duration of the blackout.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('1m')",message="duration must be a time such as 90s, 30m or 36h (days have no unit), and at least 1m"
	Duration metav1.Duration `json:"duration"`

	// TimeZone of start, an IANA name. Default: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",message="timeZone must be an IANA time zone, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
}

// RebuildSettings define when Kamino rebuilds the nodes of a pool's oldest image. Cron, blackouts, maxConcurrent,
// settings.drain, settings.outOfService and failures apply to rebuilds and captures.
type RebuildSettings struct {
	// AtImages is the number of different images, in nodes and recipe, at which rebuilds start. Rebuilds end with the
	// last node of the oldest image. Only clouds with a limit for images use this field.
	// +optional
	// +kubebuilder:default=8
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	AtImages int32 `json:"atImages,omitempty"`

	// Outdated rebuilds every node that is not of the pool's current version, the oldest image first. Default: never.
	// +optional
	Outdated *OutdatedSettings `json:"outdated,omitempty"`
}

// OutdatedSettings define when Kamino rebuilds nodes of earlier images, and how many.
type OutdatedSettings struct {
	// After is the age of the current version at which these rebuilds start. The age begins with the capture.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="after must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	After *metav1.Duration `json:"after,omitempty"`

	// PerHour is the maximum number of these rebuilds that start in an hour, evenly spaced. MaxConcurrent limits the
	// rebuilds that run at the same time.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	PerHour int32 `json:"perHour,omitempty"`
}

// FailureSettings define the reaction to failed captures, for each pool, since its last successful capture.
type FailureSettings struct {
	// Limit of failures in a row. At the limit the policy stops captures of the pool until a user acts.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Limit int32 `json:"limit,omitempty"`

	// Backoff after the first failure. The backoff doubles with every further failure, up to a day.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="backoff must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	Backoff *metav1.Duration `json:"backoff,omitempty"`
}
