package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrototypePolicy has pools follow their best patched node: it says for which pools, what a good donor is,
// when a capture may begin, and how it is done. Each decision becomes a Prototype.
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

	// Spec of the policy. An empty one is complete: it is for all pools and reads kured's annotations.
	Spec PrototypePolicySpec `json:"spec"`

	// Status is a report. Losing it costs a longer look at the world, nothing else.
	// +optional
	Status PrototypePolicyStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object, which are left out of it. It is never stored itself.
	Unreadable Unreadable `json:"-"`
}

// PrototypePolicyList is a list of PrototypePolicies.
// +kubebuilder:object:root=true
type PrototypePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PrototypePolicy `json:"items"`
}

// PrototypePolicySpec says for which pools, from which nodes, when and how.
type PrototypePolicySpec struct {
	// Pools that the policy is for. All pools of the cluster if it names none.
	// +optional
	Pools PoolSelector `json:"pools,omitzero"`

	// Patched says how a patched node is told. kured's annotations if absent.
	// +optional
	// +kubebuilder:default={preset: kured}
	Patched PatchedSettings `json:"patched,omitzero"`

	// Selection says which patched node is a good donor.
	// +optional
	// +kubebuilder:default={}
	Selection SelectionSettings `json:"selection,omitempty"`

	// Schedule says when a capture may begin. At any time if absent.
	// +optional
	Schedule ScheduleSettings `json:"schedule,omitzero"`

	// Settings that the captures are done with.
	// +optional
	// +kubebuilder:default={}
	Settings Settings `json:"settings,omitempty"`

	// Rebuild lets the controller build the nodes of a pool's oldest image anew from its current version, one at a time,
	// once its nodes were built from many images. Never if absent.
	// +optional
	Rebuild *RebuildSettings `json:"rebuild,omitempty"`

	// Rollback says what follows when the nodes of a version do not join.
	// +optional
	// +kubebuilder:default={}
	Rollback RollbackSettings `json:"rollback,omitzero"`

	// MaxConcurrent is how many captures may run at once over the whole cluster, those of other policies and
	// of people included. A node that a policy has rebuilt counts as one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// Failures says what follows from captures that fail.
	// +optional
	// +kubebuilder:default={}
	Failures FailureSettings `json:"failures,omitempty"`

	// Suspend stops new decisions. Captures that run are finished.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`

	// DryRun has the policy decide and report, and capture nothing.
	// +optional
	// +kubebuilder:default=false
	DryRun bool `json:"dryRun,omitempty"`
}

// RollbackMode is who goes back from a version whose nodes do not join.
// +kubebuilder:validation:Enum=Automatic;Off
type RollbackMode string

const (
	// RollbackAutomatic has the policy point the pool at the version before, and capture nothing of that pool until a person
	// has acknowledged it.
	RollbackAutomatic RollbackMode = "Automatic"
	// RollbackOff has it only say so.
	RollbackOff RollbackMode = "Off"
)

// RollbackSettings say when nodes of a version count as ones that do not join, and what follows.
type RollbackSettings struct {
	// Mode is who goes back. A policy with dryRun or suspend only says so, whatever the mode is.
	// +optional
	// +kubebuilder:default=Automatic
	Mode RollbackMode `json:"mode,omitempty"`

	// JoinTimeout is how long an instance may run before its node is Ready. The default is a minute less than what the cluster
	// autoscaler waits before it removes one.
	// +optional
	// +kubebuilder:default="14m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="joinTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	JoinTimeout metav1.Duration `json:"joinTimeout,omitzero"`

	// UnreadyTimeout is how long a node may be seen late, or not Ready again, before it counts as one that did not join.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="unreadyTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	UnreadyTimeout metav1.Duration `json:"unreadyTimeout,omitzero"`

	// Watch is for how long a node is watched, from when its instance began to run.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="watch must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Watch metav1.Duration `json:"watch,omitzero"`

	// DaemonSetTimeout is how long a DaemonSet that is Ready on other nodes may be not Ready on the node.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="daemonSetTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	DaemonSetTimeout metav1.Duration `json:"daemonSetTimeout,omitzero"`

	// IgnoreDaemonSets are DaemonSets, as namespace/name, that need not be Ready on a node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	IgnoreDaemonSets []string `json:"ignoreDaemonSets,omitempty"`
}

// PoolSelector says which pools are meant. All pools if it is empty.
// +kubebuilder:validation:XValidation:rule="!(has(self.names) && has(self.nodeSelector))",message="name pools or select them by their nodes, not both"
type PoolSelector struct {
	// Names of the pools, as the cloud has them. Case does not matter.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Names []string `json:"names,omitempty"`

	// NodeSelector selects every pool with at least one node that it matches. Donors may then be any node of
	// such a pool.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// PatchPreset names the annotations of a known patcher.
// +kubebuilder:validation:Enum=kured;kamino
type PatchPreset string

const (
	// PresetKured reads what kured writes with --annotate-nodes.
	PresetKured PatchPreset = "kured"
	// PresetKamino reads what Kamino's own patcher writes, and is the contract for any other.
	PresetKamino PatchPreset = "kamino"
)

// PatchedSettings name the two annotations by which a patched node is told.
// +kubebuilder:validation:XValidation:rule="has(self.preset) ? !has(self.mostRecentPatch) && !has(self.rebootPending) : has(self.mostRecentPatch) && has(self.rebootPending)",message="name a preset, or both annotations (mostRecentPatch and rebootPending), not a mixture"
type PatchedSettings struct {
	// Preset names the annotations of a known patcher.
	// +optional
	Preset PatchPreset `json:"preset,omitempty"`

	// MostRecentPatch is the annotation with the time, in RFC 3339, of the node's last patch that needed a reboot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	MostRecentPatch string `json:"mostRecentPatch,omitempty"`

	// RebootPending is the annotation that a node carries, with any value but "false", while it waits for its reboot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`
	RebootPending string `json:"rebootPending,omitempty"`
}

// SelectionSettings say which patched node is a good donor.
type SelectionSettings struct {
	// MinReadyTime that a node must have been Ready without a break.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="minReadyTime must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MinReadyTime *metav1.Duration `json:"minReadyTime,omitempty"`

	// MinCandidates that a pool must have before one of them is taken.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinCandidates int32 `json:"minCandidates,omitempty"`

	// MaxImageAge past which a pool's image is replaced even though no node was patched since: the rules about
	// patches are waived then. A pool without a prototype counts as older. Never if absent or zero.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="maxImageAge must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MaxImageAge metav1.Duration `json:"maxImageAge,omitzero"`

	// IgnoreNodes are names of nodes that are never taken.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	IgnoreNodes []string `json:"ignoreNodes,omitempty"`

	// IgnoreAnnotations are names of annotations; a node that carries one, with any value, is never taken.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	IgnoreAnnotations []string `json:"ignoreAnnotations,omitempty"`

	// IgnoreLabels are names of labels; a node that carries one, with any value, is never taken.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	IgnoreLabels []string `json:"ignoreLabels,omitempty"`

	// Refuse is a CEL expression over `node` (the Node as JSON) and `now` (a timestamp). A node for which it is
	// true is not taken, nor is one for which it fails.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Refuse string `json:"refuse,omitempty"`

	// Score is a CEL expression over `node` and `now` that gives a number. The candidate with the highest one
	// is taken; among equals the one that has been Ready longest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Score string `json:"score,omitempty"`
}

// ScheduleSettings say when a capture may begin. One that has begun is finished at any time.
// +kubebuilder:validation:XValidation:rule="has(self.cron) || (!has(self.window) && !has(self.timeZone))",message="window and timeZone belong to cron: name cron too, or leave them out"
type ScheduleSettings struct {
	// Cron in five fields (minute, hour, day of month, month, day of week): the moments from which on captures
	// may begin. At any time if absent.
	// +optional
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z*,/?-]+( +[0-9A-Za-z*,/?-]+){4}$`
	Cron string `json:"cron,omitempty"`

	// Window is for how long after each of these moments captures may begin. 2h if absent.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('1m')",message="window must be a time such as 90s, 30m or 36h (days have no unit), and at least 1m"
	Window metav1.Duration `json:"window,omitzero"`

	// TimeZone of cron, by its IANA name. UTC if absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",message="timeZone must be an IANA time zone, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`

	// Blackouts are times in which no capture begins, whatever cron says.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Blackouts []Blackout `json:"blackouts,omitempty"`

	// MinInterval between the beginnings of two captures of a pool, the first of which succeeded. None if absent
	// or zero; a pool gets at most one version a day in any case.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="minInterval must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MinInterval metav1.Duration `json:"minInterval,omitzero"`
}

// Blackout is a time that comes again, in which no capture begins.
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

	// TimeZone of start, by its IANA name. UTC if absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",message="timeZone must be an IANA time zone, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
}

// RebuildSettings say when the nodes of a pool's oldest image are built anew. Cron, blackouts, maxConcurrent,
// settings.drain, settings.outOfService and failures count for a rebuild as they do for a capture.
type RebuildSettings struct {
	// AtImages is from how many different images on, those of the pool's nodes and what its recipe names. It ends with the
	// last node of the oldest one. Only clouds count that have a limit to it.
	// +optional
	// +kubebuilder:default=8
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	AtImages int32 `json:"atImages,omitempty"`
}

// FailureSettings say what follows from captures that fail. Failures are counted for each pool, from its last
// capture that succeeded on.
type FailureSettings struct {
	// Limit of failures in a row, at which the policy stops for the pool until a person has looked.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Limit int32 `json:"limit,omitempty"`

	// Backoff after the first failure. It doubles with each further one, up to a day.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="backoff must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	Backoff *metav1.Duration `json:"backoff,omitempty"`
}
