package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PioneerSettings make the donor a pioneer: Kamino patches and reboots the donor, and watches the node in service before
// the capture. The pool's next nodes get the patches from the image.
type PioneerSettings struct {
	// Patches is the set of patches.
	// +optional
	// +kubebuilder:default=Security
	Patches PatchSet `json:"patches,omitempty"`

	// Hold has regular expressions (RE2) for names of packages that Kamino does not change, in addition to the holds of the
	// node. Each expression begins with ^. Default: kubelet, kubeadm, kubectl, containerd, runc and cri tools.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"^kubelet$","^kubeadm$","^kubectl$","^containerd","^runc$","^cri-"}
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^\^`
	Hold []string `json:"hold,omitempty"`

	// MinAge is how long a patch must have been available. Default: 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="minAge must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	MinAge metav1.Duration `json:"minAge,omitzero"`

	// Soak is how long the patched node must stay Ready in service, with healthy DaemonSets, before the capture continues.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('0s')",message="soak must be a time such as 90s, 30m or 36h (days have no unit), and not negative"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// OtherRebooters defines the reaction to other tools that patch or reboot the node: kured, unattended-upgrades and
	// dnf-automatic. Refuse ends the capture before any change.
	// +optional
	// +kubebuilder:default=Refuse
	OtherRebooters OtherRebooters `json:"otherRebooters,omitempty"`

	// QuietNodes masks the timers of apt and dnf-automatic, and unattended-upgrades, in the image. New nodes then get patches
	// from images only. The donor is unchanged.
	// +optional
	// +kubebuilder:default=true
	QuietNodes *bool `json:"quietNodes,omitempty"`
}

// OtherRebooters is the reaction to other tools that reboot a pioneer.
// +kubebuilder:validation:Enum=Refuse;Allow
type OtherRebooters string

const (
	OtherRebootersRefuse OtherRebooters = "Refuse"
	OtherRebootersAllow  OtherRebooters = "Allow"
)

// DefaultPioneerSoak is the default of PioneerSettings.Soak.
const DefaultPioneerSoak = time.Hour

// DefaultPatchHold returns the default of PioneerSettings.Hold.
func DefaultPatchHold() []string {
	return []string{"^kubelet$", "^kubeadm$", "^kubectl$", "^containerd", "^runc$", "^cri-"}
}

// Defaulted returns the settings with the defaults of the API.
func (s PioneerSettings) Defaulted() PioneerSettings {
	if s.Patches == "" {
		s.Patches = PatchSecurity
	}
	if s.Hold == nil {
		s.Hold = DefaultPatchHold()
	}
	if s.Soak == nil {
		s.Soak = &metav1.Duration{Duration: DefaultPioneerSoak}
	}
	if s.OtherRebooters == "" {
		s.OtherRebooters = OtherRebootersRefuse
	}
	if s.QuietNodes == nil {
		quiet := true
		s.QuietNodes = &quiet
	}
	return s
}

// PatchStatus reports the patch of a pioneer.
type PatchStatus struct {
	// StartedAt and FinishedAt are the begin and the end of the patch. FinishedAt is absent while the patch runs.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitzero"`
	// +optional
	FinishedAt metav1.Time `json:"finishedAt,omitzero"`
	// Result of the patch, from the signed report: current, patched, incomplete or refused. ReportedAt is the time of the
	// report.
	// +optional
	Result string `json:"result,omitempty"`
	// +optional
	ReportedAt metav1.Time `json:"reportedAt,omitzero"`
	// Level is the patch level after the patch, and Set the digest of the installed patches.
	// +optional
	Level string `json:"level,omitempty"`
	// +optional
	Set string `json:"set,omitempty"`
	// Installed is the number of installed patches.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Installed int32 `json:"installed,omitempty"`
	// Problem is the sentence of a report without success, or what was unhealthy on the node before the patch.
	// +optional
	Problem string `json:"problem,omitempty"`
	// BackAt is the first time at which the node was Ready under another boot. HealthySince is the begin of the current time
	// in service without a problem.
	// +optional
	BackAt metav1.Time `json:"backAt,omitzero"`
	// +optional
	HealthySince metav1.Time `json:"healthySince,omitzero"`
	// Failure is the reason of the failure; empty without a failure. FailedLevel is the level to blame.
	// +optional
	Failure string `json:"failure,omitempty"`
	// +optional
	FailedLevel string `json:"failedLevel,omitempty"`
}

// PatchRecord is the lasting state of the patch of one node.
type PatchRecord struct {
	PatchStatus `json:",inline"`
	// NodeUID of the patched Node.
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// NodeOrder and Method of the current order, and the time of its record. Boot is the boot ID of the node before the patch.
	Order     *OrderRecord `json:"order,omitempty"`
	Method    OrderMethod  `json:"method,omitempty"`
	OrderedAt metav1.Time  `json:"orderedAt,omitzero"`
	Boot      string       `json:"boot,omitempty"`
	// Abilities are what the node offered by its drivers before the patch, with their numbers.
	Abilities map[string]int64 `json:"abilities,omitempty"`
}
