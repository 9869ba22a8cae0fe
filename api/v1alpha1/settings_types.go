package v1alpha1

import (
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

// Settings say how a capture is done. A PrototypePolicy carries them for its pools; each Prototype
// carries the ones that it was decided with. What only one cloud has stands under that cloud's name.
// +kubebuilder:validation:XValidation:rule="!has(self.publish) || !has(self.publish.replicas) || !has(self.azure) || !has(self.azure.replicas) || self.publish.replicas == self.azure.replicas",message="publish.replicas is the former name of azure.replicas, and they differ: leave publish.replicas out"
// +kubebuilder:validation:XValidation:rule="!has(self.donor) || !has(self.donor.afterwards) || self.donor.afterwards != 'Return' || !has(self.generalize) || !has(self.generalize.profile) || self.generalize.profile != 'bootstrap'",message="a donor of profile bootstrap cannot return, because what it joins with is taken off its disk: leave donor.afterwards out, or set Remove"
type Settings struct {
	// Donor says what becomes of the donor.
	// +optional
	// +kubebuilder:default={}
	Donor DonorSettings `json:"donor,omitzero"`

	// Drain says how the donor's pods are asked to leave.
	// +optional
	// +kubebuilder:default={}
	Drain DrainSettings `json:"drain,omitempty"`

	// Generalize says what is removed from the donor's disk.
	// +optional
	// +kubebuilder:default={}
	Generalize GeneralizeSettings `json:"generalize,omitempty"`

	// OutOfService limits how long the donor may be away.
	// +optional
	// +kubebuilder:default={}
	OutOfService OutOfServiceSettings `json:"outOfService,omitempty"`

	// Publish holds a former name of a setting that stands under azure now.
	// +optional
	// +kubebuilder:default={}
	Publish PublishSettings `json:"publish,omitempty"`

	// Trial says how the image version is tried before the pool uses it.
	// +optional
	// +kubebuilder:default={}
	Trial TrialSettings `json:"trial,omitzero"`

	// Promotion says who points the pool at the image version.
	// +optional
	// +kubebuilder:default={}
	Promotion PromotionSettings `json:"promotion,omitzero"`

	// Recipe says what happens to the pool once the image version is complete.
	// +optional
	// +kubebuilder:default={}
	Recipe RecipeSettings `json:"recipe,omitempty"`

	// Keep is how many versions of the pool are kept, the current one included. The current and the
	// prior version always stay.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Keep int32 `json:"keep,omitempty"`

	// Azure holds what only pools on Azure have. With a donor of another cloud it is refused. None if absent.
	// +optional
	Azure *AzureSettings `json:"azure,omitempty"`

	// AWS holds what only pools on AWS have. With a donor of another cloud it is refused. None if absent.
	// +optional
	AWS *AWSSettings `json:"aws,omitempty"`
}

// Afterwards is what becomes of a donor once its disk was copied.
// +kubebuilder:validation:Enum=Return;Remove
type Afterwards string

const (
	// Return starts the donor again, and gives it back as it was.
	Return Afterwards = "Return"
	// Remove takes its instance out of the pool, and its Node out of the cluster. Another node is in its place.
	Remove Afterwards = "Remove"
)

// DonorSettings say what becomes of the donor.
// +kubebuilder:validation:XValidation:rule="!has(self.growFirst) || !self.growFirst || !has(self.afterwards) || self.afterwards != 'Return'",message="growFirst is for a donor that is removed, and afterwards says Return: leave one of them out"
type DonorSettings struct {
	// Afterwards says what becomes of the donor once its disk was copied. If absent, what the profile allows: a donor that
	// can serve again returns, another is removed.
	// +optional
	Afterwards Afterwards `json:"afterwards,omitempty"`

	// GrowFirst has the pool grow by one before a donor that does not return is taken, and its new node be Ready; off, the
	// pool is one node short until the donor's place is filled. On if absent.
	// +optional
	GrowFirst *bool `json:"growFirst,omitempty"`
}

// DrainSettings say how the donor's pods are asked to leave.
type DrainSettings struct {
	// GracePeriod that every pod gets to end. Each pod's own if absent.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="gracePeriod must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`

	// Timeout after which a drain that is not done fails the capture (with force: after which the pods
	// that are left are deleted, budgets or not).
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// Force also evicts pods that no controller makes again, and at the timeout deletes pods against
	// their PodDisruptionBudgets.
	// +optional
	Force bool `json:"force,omitempty"`

	// Disrupt also takes a node, and evicts pods, that ask not to be disrupted: by the annotation
	// karpenter.sh/do-not-disrupt, or a pod by cluster-autoscaler.kubernetes.io/safe-to-evict "false".
	// +optional
	Disrupt bool `json:"disrupt,omitempty"`
}

// GeneralizeSettings say what is removed from the donor's disk.
type GeneralizeSettings struct {
	// Profile of the pool's nodes. If a policy leaves it out, it is found by how they join, and each Prototype carries what was
	// found. In a Prototype, static if absent.
	// +optional
	Profile Profile `json:"profile,omitempty"`

	// Rules names a ConfigMap in the namespace of the generalize pods that adds rules, agents and exemptions to the profile:
	// each key that ends in .yaml is such a file (docs/image.md). None if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Rules string `json:"rules,omitempty"`

	// UnknownFiles says what becomes of a disk with files that neither a package nor a container image nor the
	// base of the system brought, and that no rule keeps or exempts: Refuse fails the capture. Allow if absent.
	// +optional
	UnknownFiles UnknownFiles `json:"unknownFiles,omitempty"`

	// Image of the generalize pod: Kamino's own. The controller's own image if absent.
	// +optional
	Image string `json:"image,omitempty"`
}

// UnknownFiles is what becomes of a disk with files that nobody is known to have brought.
// +kubebuilder:validation:Enum=Allow;Refuse
type UnknownFiles string

const (
	// UnknownFilesAllow lets them stay; the manifest lists them.
	UnknownFilesAllow UnknownFiles = "Allow"
	// UnknownFilesRefuse fails the capture.
	UnknownFilesRefuse UnknownFiles = "Refuse"
)

// OutOfServiceSettings limit how long the donor may be away.
type OutOfServiceSettings struct {
	// Deadline, from the reservation on, past which a capture that does not have its snapshot gives the
	// donor back and fails.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="deadline must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Deadline metav1.Duration `json:"deadline,omitzero"`

	// ReadyTimeout is how long, past the deadline, a started donor may take to be Ready again before the
	// capture stops waiting, gives it back as it is and fails. Of a donor that does not return it is how long the node that
	// the pool grows by first may take to be Ready; then the capture fails, and the donor was not taken.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="readyTimeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	ReadyTimeout metav1.Duration `json:"readyTimeout,omitzero"`

	// MaxUnavailable is how many of the pool's nodes may be not Ready, or cordoned, once the donor is taken, the
	// donor included: a number, or a share of them, rounded up, such as "10%". At least the donor.
	// +optional
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100000 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number from 1 to 100000, or a share from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Defaults of trials and promotions.
const (
	DefaultSoak             = 10 * time.Minute
	DefaultTrialTimeout     = 2 * time.Hour
	DefaultPromotionTimeout = 7 * 24 * time.Hour
)

// Tries tells whether a version is tried before the pool uses it.
func (s Settings) Tries() bool { return s.Trial.Mode == TrialApart || s.Trial.Mode == TrialInPool }

// DefaultMaxUnavailable share of a pool's nodes.
const DefaultMaxUnavailable = "10%"

// AzureSettings are what only pools on Azure have.
type AzureSettings struct {
	// Replicas of the image version in the pool's region. By the pool's maximum size if absent, at least 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
}

// AWSSettings are what only pools on AWS have.
type AWSSettings struct {
	// VolumeInitializationRate is how fast the root volume of a node that is built from the version is read from its snapshot, in
	// MiB/s, which AWS bills by the GiB: the promotion writes it into the launch template. As the launch template has it if
	// absent; AWS's own default is to read each block when it is used first.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
}

// PublishSettings hold a former name.
type PublishSettings struct {
	// Replicas is the former name of azure.replicas, and means the same. Write that one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
}

// TrialMode is where a trial node is built.
// +kubebuilder:validation:Enum=Apart;InPool;Off
type TrialMode string

const (
	// TrialApart builds it beside the pool, from what the pool's nodes are built from. The pool is not touched.
	TrialApart TrialMode = "Apart"
	// TrialInPool has the pool grow by it: its recipe names the version until the node is made, and then what it named
	// before.
	TrialInPool TrialMode = "InPool"
	// TrialOff tries nothing: the pool's next node is the first that shows whether the version is good.
	TrialOff TrialMode = "Off"
)

// TrialSettings say how an image version is tried before the pool uses it: a node is built from it, judged by named checks,
// and removed.
type TrialSettings struct {
	// Mode is where the trial node is built. If a policy leaves it out, it is found by what the pool allows, and each
	// Prototype carries what was found. In a Prototype, Off if absent: it was decided before there were trials.
	// +optional
	Mode TrialMode `json:"mode,omitempty"`

	// Soak is how long the trial node must stay Ready.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="soak must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// Timeout of the trial, with every attempt that could not tell. One that has no verdict by then fails the capture, and
	// the version stays as it is.
	// +optional
	// +kubebuilder:default="2h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// IgnoreDaemonSets are DaemonSets, as namespace/name, that need not be Ready on the trial node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	IgnoreDaemonSets []string `json:"ignoreDaemonSets,omitempty"`

	// Job names a ConfigMap in the namespace of the generalize pods whose key job.yaml is a Job that must succeed on the trial node. None if
	// absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Job string `json:"job,omitempty"`

	// Outside is a name that is none of the cluster's, such as example.com, whose address pods on the trial node must find. It is
	// only looked up, and nothing is connected to. None is looked for if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Outside string `json:"outside,omitempty"`
}

// PromotionMode is who decides that a pool is pointed at a version.
// +kubebuilder:validation:Enum=Automatic;Manual
type PromotionMode string

const (
	// PromotionAutomatic points the pool at the version as soon as it is complete and has passed its trial.
	PromotionAutomatic PromotionMode = "Automatic"
	// PromotionManual waits for a person to: kamino promote POOL VERSION.
	PromotionManual PromotionMode = "Manual"
)

// PromotionSettings say who points the pool at the image version.
type PromotionSettings struct {
	// Mode is who decides.
	// +optional
	// +kubebuilder:default=Automatic
	Mode PromotionMode `json:"mode,omitempty"`

	// Timeout after which a version that nobody has promoted is no longer waited for. It stays, and can still be promoted.
	// +optional
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) > duration('0s')",message="timeout must be a time such as 90s, 30m or 36h (days have no unit), and longer than 0s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// RecipeSettings say what happens to the pool once the image version is complete.
type RecipeSettings struct {
	// NewNodes is by how many nodes the pool grows after the promotion.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	NewNodes int32 `json:"newNodes,omitempty"`

	// CustomDataFrom names the Secret that holds a copy of the pool's customData as the recipe has it before its first
	// promotion, in Kamino's namespace. Azure gives customData out to nobody, so that only with a copy all of what the
	// recipe loses is kept. The Secret has the label kamino.dev/pool with the pool's name, or the type kamino.dev/custom-data: any other
	// one is refused.
	// +optional
	CustomDataFrom *SecretKey `json:"customDataFrom,omitempty"`
}

// SecretKey names a key of a Secret in Kamino's namespace.
type SecretKey struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// Key in it. customData if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// DonorLeaves tells whether the donor is removed once its disk was copied.
func (s Settings) DonorLeaves() bool {
	switch s.Donor.Afterwards {
	case Return:
		return false
	case Remove:
		return true
	}
	return !s.Profile().Traits().DonorMayReturn
}

// Profile that a capture with the settings generalizes with: static if they name none.
func (s Settings) Profile() Profile {
	if s.Generalize.Profile == "" {
		return ProfileStatic
	}
	return s.Generalize.Profile
}

// GrowsFirst tells whether the pool grows by one before the donor is taken.
func (s Settings) GrowsFirst() bool {
	return s.DonorLeaves() && (s.Donor.GrowFirst == nil || *s.Donor.GrowFirst)
}

// Defaulted returns the settings with every absent value as the API server would fill it in. It serves
// callers that show or use settings before an API server has seen them.
func (s Settings) Defaulted() Settings {
	if s.Drain.Timeout.Duration == 0 {
		s.Drain.Timeout.Duration = 15 * time.Minute
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
