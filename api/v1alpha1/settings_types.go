package v1alpha1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Profile names the set of rules that says what must not survive into a clone, and how a clone joins.
// +kubebuilder:validation:Enum=static;eks;bootstrap
type Profile string

const (
	// ProfileStatic is for clusters whose kubelets share one credential that is on the disk (AKS Engine):
	// the bootstrap is done once and for all, and is taken out of the recipe.
	ProfileStatic Profile = "static"
	// ProfileEKS is for nodes of EKS with Amazon Linux 2023: nodeadm joins them at every boot, by the role of their
	// instance, which is on no disk. The user data that it reads stays in the recipe, and a donor returns.
	ProfileEKS Profile = "eks"
	// ProfileBootstrap is for clusters whose nodes each join with a credential of their own (kubeadm,
	// Cluster API): the credential is taken off the disk and the bootstrap stays in the recipe.
	ProfileBootstrap Profile = "bootstrap"
)

// Settings of a capture. A PrototypePolicy has settings for its pools; a Prototype has a copy of the settings at
// the decision. Settings of a single cloud are under the name of the cloud.
// +kubebuilder:validation:XValidation:rule="!has(self.donor) || !has(self.donor.method) || self.donor.method != 'InPlace' || !has(self.generalize) || !has(self.generalize.profile) || self.generalize.profile != 'bootstrap'",message="a node of profile bootstrap is only copied, because a capture in place would delete the credential with which it joins: omit settings.donor.method"
type Settings struct {
	// Donor defines how the donor's disk becomes an image.
	// +optional
	// +kubebuilder:default={}
	Donor DonorSettings `json:"donor,omitzero"`

	// Drain defines the eviction of the donor's pods.
	// +optional
	// +kubebuilder:default={}
	Drain DrainSettings `json:"drain,omitempty"`

	// Generalize defines the removal of identity and secrets from the donor's disk.
	// +optional
	// +kubebuilder:default={}
	Generalize GeneralizeSettings `json:"generalize,omitempty"`

	// OutOfService limits how long the donor may be out of service.
	// +optional
	// +kubebuilder:default={}
	OutOfService OutOfServiceSettings `json:"outOfService,omitempty"`

	// Trial defines the test of the image version before the pool uses the version.
	// +optional
	// +kubebuilder:default={}
	Trial TrialSettings `json:"trial,omitzero"`

	// Promotion defines who points the pool at the image version.
	// +optional
	// +kubebuilder:default={}
	Promotion PromotionSettings `json:"promotion,omitzero"`

	// Recipe defines changes to the pool after the image version is complete.
	// +optional
	// +kubebuilder:default={}
	Recipe RecipeSettings `json:"recipe,omitempty"`

	// Keep is the number of versions to keep, including the current version. The current and the prior version always
	// stay.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Keep int32 `json:"keep,omitempty"`

	// Azure has settings for Azure only. Kamino refuses these settings for donors of other clouds.
	// +optional
	Azure *AzureSettings `json:"azure,omitempty"`

	// AWS has settings for AWS only. Kamino refuses these settings for donors of other clouds.
	// +optional
	AWS *AWSSettings `json:"aws,omitempty"`
}

// DonorSettings define how the donor's disk becomes an image.
// +kubebuilder:validation:XValidation:rule="!has(self.method) || self.method != 'InPlace' || !has(self.freeze) && !has(self.workshopType)",message="freeze and workshopType belong to the method Copy"
type DonorSettings struct {
	// Method defines how the disk of the donor becomes an image. Copy: the donor stays in service, and Kamino cleans a copy
	// of its disk on another machine. InPlace: the donor is drained, cleaned and powered off, and returns. If a policy has no
	// method, Kamino chooses Copy, except for nodes of AKS Engine, and writes the method into each Prototype. Default in a
	// Prototype: InPlace.
	// +optional
	Method CaptureMethod `json:"method,omitempty"`

	// Freeze defines whether the root file system of the donor is frozen for the moment of the copy. Auto freezes it, for
	// fractions of a second, if systemd of the node can guard the freeze. Never only flushes it. Only for method Copy.
	// Default: Auto.
	// +optional
	Freeze Freeze `json:"freeze,omitempty"`

	// WorkshopType is the instance type of the machine on which the copy is cleaned, in the words of the cloud. Only for
	// method Copy. Default: the type of the pool.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[-._A-Za-z0-9]+$`
	WorkshopType string `json:"workshopType,omitempty"`
}

// DrainSettings say how the donor's pods are asked to leave.
type DrainSettings struct {
	// GracePeriod is the termination grace period for every pod. Default: the grace period of the pod.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="gracePeriod must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`

	// Timeout of the drain. After the timeout the capture fails; with force, Kamino deletes the remaining pods despite
	// their PodDisruptionBudgets.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// Force also evicts pods without a controller. At the timeout, Kamino deletes pods despite their
	// PodDisruptionBudgets.
	// +optional
	Force bool `json:"force,omitempty"`

	// Disrupt ignores the annotations karpenter.sh/do-not-disrupt on nodes and pods, and
	// cluster-autoscaler.kubernetes.io/safe-to-evict "false" on pods.
	// +optional
	Disrupt bool `json:"disrupt,omitempty"`
}

// GeneralizeSettings define the removal of identity and secrets from the donor's disk.
type GeneralizeSettings struct {
	// Profile of the pool's nodes. If a policy has no profile, Kamino detects the profile from the way nodes join, and
	// writes the profile into each Prototype. Default in a Prototype: static.
	// +optional
	Profile Profile `json:"profile,omitempty"`

	// Rules names a ConfigMap in the namespace of the generalize pods with additional rules, agents and exemptions.
	// Kamino reads each key that ends in .yaml. Default: none.
	// https://github.com/kamino-dev/kamino/blob/main/docs/tasks/own-rules.md
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Rules string `json:"rules,omitempty"`

	// UnknownFiles defines the reaction to files that no package, container image or base system installed, and that
	// no rule keeps or exempts. Refuse fails the capture. RefuseDifferent compares the files with another Ready node of
	// the pool, and fails the capture if the content of a file differs: the file may hold an identity. ReportDifferent
	// only writes the result of the comparison into the status. Default: ReportDifferent.
	// +optional
	// +kubebuilder:default=ReportDifferent
	UnknownFiles UnknownFiles `json:"unknownFiles,omitempty"`

	// Image of the generalize pod. Default: the image kamino-node of the release.
	// +optional
	Image string `json:"image,omitempty"`
}

// UnknownFiles is the reaction to files of unknown origin on a disk.
// +kubebuilder:validation:Enum=Allow;ReportDifferent;RefuseDifferent;Refuse
type UnknownFiles string

const (
	// UnknownFilesAllow keeps unknown files; the manifest lists the files.
	UnknownFilesAllow UnknownFiles = "Allow"
	// UnknownFilesRefuse fails the capture.
	UnknownFilesRefuse UnknownFiles = "Refuse"
	// UnknownFilesRefuseDifferent fails the capture if a file has another content on another node of the pool.
	UnknownFilesRefuseDifferent UnknownFiles = "RefuseDifferent"
	// UnknownFilesReportDifferent compares like RefuseDifferent, and never fails the capture.
	UnknownFilesReportDifferent UnknownFiles = "ReportDifferent"
)

// Compares reports whether the files are compared with another node of the pool.
func (u UnknownFiles) Compares() bool {
	return u == UnknownFilesRefuseDifferent || u == UnknownFilesReportDifferent
}

// OutOfServiceSettings limit how long the donor may be away.
type OutOfServiceSettings struct {
	// Deadline after the reservation. Without a snapshot at the deadline, Kamino returns the donor to service and the
	// capture fails.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="deadline must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Deadline metav1.Duration `json:"deadline,omitzero"`

	// ReadyTimeout is how long after the deadline a restarted donor may take to become Ready. After that Kamino
	// releases the donor and the capture fails.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="readyTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	ReadyTimeout metav1.Duration `json:"readyTimeout,omitzero"`

	// MaxUnavailable is how many nodes of the pool may be not Ready or cordoned, including the donor: a number, or a
	// percentage such as "10%", rounded up. Kamino always allows the donor.
	// +optional
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100000 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number from 1 to 100000, or a share from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Defaults of trials and promotions.
const (
	DefaultTrialMode        = TrialApart
	DefaultSoak             = 10 * time.Minute
	DefaultTrialTimeout     = 2 * time.Hour
	DefaultPromotionTimeout = 7 * 24 * time.Hour
)

// HasTrial reports whether a version of a new capture has a trial before the pool uses the version.
func (s Settings) HasTrial() bool { return cmp.Or(s.Trial.Mode, DefaultTrialMode) == TrialApart }

// HasTrial reports whether the version has a trial before the pool uses the version. A capture that has begun keeps the mode of its
// begin: without a mode, earlier versions of Kamino made no trial.
func (p *Prototype) HasTrial() bool {
	if p.Spec.Settings.Trial.Mode == "" && p.Status.Record != nil {
		return p.Status.Record.TrialMode == TrialApart
	}
	return p.Spec.Settings.HasTrial()
}

// DefaultMaxUnavailable share of a pool's nodes.
const DefaultMaxUnavailable = "10%"

// AzureSettings are settings for Azure only.
type AzureSettings struct {
	// Replicas of the image version in the pool's region. Default: by the maximum size of the pool, at least 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
}

// AWSSettings are settings for AWS only.
type AWSSettings struct {
	// VolumeInitializationRate is the rate, in MiB/s, at which EBS loads the root volume of a new node from the
	// snapshot. AWS bills the rate per GiB. The promotion writes the rate into the launch template. Default: the value
	// in the launch template; without a value, AWS loads each block at the first use.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
}

// TrialMode is where a trial node is built.
// +kubebuilder:validation:Enum=Apart;Off
type TrialMode string

const (
	// TrialApart builds the trial node outside the pool, with the pool's settings. The pool does not change.
	TrialApart TrialMode = "Apart"
	// TrialOff tries nothing: the pool's next node is the first that shows whether the version is good.
	TrialOff TrialMode = "Off"
)

// UnmarshalJSON refuses unknown modes: a stored object with the former mode InPool is Unreadable. Without the refusal, the
// object would have no trial.
func (m *TrialMode) UnmarshalJSON(text []byte) error {
	var mode string
	if err := json.Unmarshal(text, &mode); err != nil {
		return err
	}
	switch *m = TrialMode(mode); *m {
	case "", TrialApart, TrialOff:
		return nil
	default:
		return fmt.Errorf("trial mode %q is unknown: use Apart or Off", mode)
	}
}

// TrialSettings define the test of an image version before the pool uses the version: Kamino boots a trial node,
// runs checks, and removes the node.
type TrialSettings struct {
	// Mode defines where Kamino boots the trial node. Default: Apart.
	// +optional
	Mode TrialMode `json:"mode,omitempty"`

	// Soak is how long the trial node must stay Ready.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="soak must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// Reboot defines whether the cloud restarts the trial node once, after all other checks have passed.
	// +optional
	// +kubebuilder:default=true
	Reboot *bool `json:"reboot,omitempty"`

	// Timeout of the trial, including inconclusive attempts. Without a verdict at the timeout, the capture fails, and
	// the version stays.
	// +optional
	// +kubebuilder:default="2h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// IgnoreDaemonSets lists DaemonSets, as namespace/name, whose pods need not be Ready on the trial node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	IgnoreDaemonSets []string `json:"ignoreDaemonSets,omitempty"`

	// IgnoreDifferences lists properties in which the trial node may differ from the pool's other nodes, such as
	// allocatable/memory, label/team or taint/dedicated. A * at the end matches any end. Names:
	// https://github.com/kamino-dev/kamino/blob/main/docs/concepts/trial.md
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=400
	// +kubebuilder:validation:items:Pattern=`^(allocatable|taint|label|condition|driver|daemonset|speed|runtime|staticpod|kernel)/.+$|^(kubelet|runtime|os|recipe|images|address|clock|openFiles|certificate)$`
	IgnoreDifferences []string `json:"ignoreDifferences,omitempty"`

	// Expect lists expressions about the trial node. Each expression is a check in status.trial.checks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	Expect []TrialExpectation `json:"expect,omitempty"`

	// KeepFailed is how long Kamino keeps the instance of a failed trial for an inspection. The capture ends afterwards.
	// Default: 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="keepFailed must be a time such as 90s, 30m or 12h, not negative, and at most 24h"
	KeepFailed metav1.Duration `json:"keepFailed,omitzero"`

	// Job names a ConfigMap in the namespace of the generalize pods. The key job.yaml is a Job that must succeed on
	// the trial node. Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Job string `json:"job,omitempty"`

	// MachineTypes are further machine types on which the version must pass, in the words of the cloud. After the trial on
	// the pool's type, Kamino repeats the trial on each of them in this order. Each has the timeout for itself. Default: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-._A-Za-z0-9]+$`
	MachineTypes []string `json:"machineTypes,omitempty"`
}

// TrialExpectation is an expression about the trial node.
type TrialExpectation struct {
	// Name of the check.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['Provisioned','Registered','Ready','DaemonSets','Identity','Differences','Disk','Network','Images','Performance','Job','Soaked','Reboot'])",message="name is the name of a check of Kamino: choose another name"
	Name string `json:"name"`

	// Expression is a CEL expression with the result true or false. Variables: node is the trial node, and peers are the other
	// Ready nodes of the pool with another version.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression"`
}

// PromotionMode defines who points a pool at a version.
// +kubebuilder:validation:Enum=Automatic;Manual
type PromotionMode string

const (
	// PromotionAutomatic points the pool at the version after replication and a passed trial.
	PromotionAutomatic PromotionMode = "Automatic"
	// PromotionManual waits until you run: kamino promote POOL VERSION.
	PromotionManual PromotionMode = "Manual"
)

// PromotionSettings define who points the pool at the image version.
type PromotionSettings struct {
	// Mode of the promotion.
	// +optional
	// +kubebuilder:default=Automatic
	Mode PromotionMode `json:"mode,omitempty"`

	// Timeout of the wait for a promotion. The version stays after the timeout, and you can still promote the version.
	// +optional
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// RecipeSettings define changes to the pool after the image version is complete.
type RecipeSettings struct {
	// CustomDataFrom names a Secret in Kamino's namespace with a copy of the pool's original customData. Azure never
	// returns customData, so Kamino can save the complete recipe only with a copy. The Secret needs the label
	// kamino.dev/pool with the name of the pool, or the type kamino.dev/custom-data.
	// +optional
	CustomDataFrom *SecretKey `json:"customDataFrom,omitempty"`
}

// SecretKey names a key of a Secret.
type SecretKey struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// Key in the Secret. Default: customData.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// Profile is the profile of the settings; static if absent.
func (s Settings) Profile() Profile {
	if s.Generalize.Profile == "" {
		return ProfileStatic
	}
	return s.Generalize.Profile
}

// Defaulted returns the settings with the API server's default for each absent value, for callers that use settings before
// an API server.
func (s Settings) Defaulted() Settings {
	if s.Drain.Timeout.Duration == 0 {
		s.Drain.Timeout.Duration = 15 * time.Minute
	}
	if s.Generalize.UnknownFiles == "" {
		s.Generalize.UnknownFiles = UnknownFilesReportDifferent
	}
	if s.OutOfService.Deadline.Duration == 0 {
		s.OutOfService.Deadline.Duration = 30 * time.Minute
	}
	if s.OutOfService.ReadyTimeout.Duration == 0 {
		s.OutOfService.ReadyTimeout.Duration = 15 * time.Minute
	}
	if s.OutOfService.MaxUnavailable == nil {
		share := intstr.FromString(DefaultMaxUnavailable)
		s.OutOfService.MaxUnavailable = &share
	}
	if s.Trial.Soak == nil {
		s.Trial.Soak = &metav1.Duration{Duration: DefaultSoak}
	}
	if s.Trial.Reboot == nil {
		s.Trial.Reboot = new(true)
	}
	if s.Trial.Timeout.Duration == 0 {
		s.Trial.Timeout.Duration = DefaultTrialTimeout
	}
	if s.Promotion.Mode == "" {
		s.Promotion.Mode = PromotionAutomatic
	}
	if s.Promotion.Timeout.Duration == 0 {
		s.Promotion.Timeout.Duration = DefaultPromotionTimeout
	}
	if s.Keep == 0 {
		s.Keep = 3
	}
	return s
}
