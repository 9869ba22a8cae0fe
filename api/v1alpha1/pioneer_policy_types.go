package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyPioneerSettings let a policy patch one node of the pool, observe the node, and capture the node. The pool's next
// nodes get the patches from the image.
type PolicyPioneerSettings struct {
	PioneerSettings `json:",inline"`

	// CheckEvery is how often two nodes of the pool, the youngest and the oldest, check their package repositories. Kamino
	// believes the node with more pending patches. A check installs nothing.
	// +optional
	// +kubebuilder:default="6h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[-+]?([0-9.]+(ns|us|ms|s|m|h))+)$') && duration(self) >= duration('10m')",message="checkEvery must be a time such as 90s, 30m or 36h (days have no unit), and at least 10m"
	CheckEvery *metav1.Duration `json:"checkEvery,omitempty"`

	// MaxPerWeek limits the pioneers of a pool in any seven days, whatever the checks report. Default: 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxPerWeek int32 `json:"maxPerWeek,omitempty"`
}

// DefaultCheckEvery is the default of PolicyPioneerSettings.CheckEvery.
const DefaultCheckEvery = 6 * time.Hour

// DefaultPioneersPerWeek is the default of PolicyPioneerSettings.MaxPerWeek.
const DefaultPioneersPerWeek = 3

// Defaulted returns the settings with the API server's default for each absent value.
func (s PolicyPioneerSettings) Defaulted() PolicyPioneerSettings {
	s.PioneerSettings = s.PioneerSettings.Defaulted()
	if s.CheckEvery == nil {
		s.CheckEvery = &metav1.Duration{Duration: DefaultCheckEvery}
	}
	if s.MaxPerWeek == 0 {
		s.MaxPerWeek = DefaultPioneersPerWeek
	}
	return s
}

// PendingPatches are the pending patches of one node, as a check found. With a reason, the patches are unknown.
type PendingPatches struct {
	// CheckedAt is the end of the check.
	CheckedAt metav1.Time `json:"checkedAt"`

	// Set is the digest of the pending patches. Absent if the patches are unknown.
	// +optional
	Set string `json:"set,omitempty"`

	// Packages is the number of pending patches of the demanded set.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Packages int32 `json:"packages,omitempty"`

	// Security is the number of security patches among Packages.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	Security int32 `json:"security,omitempty"`

	// Names has the first packages with their versions, security patches first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Names []string `json:"names,omitempty"`

	// CVECount is the number of CVEs that the patches fix, as far as changelogs and advisories name CVEs.
	// +optional
	// +kubebuilder:validation:Maximum=2147483647
	CVECount int32 `json:"cveCount,omitempty"`

	// CVEs has the newest of these CVEs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	CVEs []string `json:"cves,omitempty"`

	// Reason in CamelCase why the node could not check. Absent after a complete check.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message explains the reason.
	// +optional
	Message string `json:"message,omitempty"`
}

// PatchesStatus reports the pending patches of a pool.
type PatchesStatus struct {
	PendingPatches `json:",inline"`

	// Node that did the check.
	// +optional
	Node string `json:"node,omitempty"`

	// Version of the node's image. Absent for a node of another image.
	// +optional
	Version string `json:"version,omitempty"`

	// Since is the time at which a check first found this set of patches.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Generation of the policy at the check.
	// +optional
	// +kubebuilder:validation:Maximum=9007199254740991
	Generation int64 `json:"generation,omitempty"`

	// Failed has the newest sets of patches that failed on a pioneer. Kamino does not try these sets again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Failed []FailedPatches `json:"failed,omitempty"`
}

// MaxFailedPatches limits PatchesStatus.Failed.
const MaxFailedPatches = 16

// FailedPatches is a set of patches that failed on a pioneer.
type FailedPatches struct {
	// Set is the digest of the pending patches.
	Set string `json:"set"`
	// Level is the patch level after the patches. Absent if the patch did not report the level.
	// +optional
	Level string `json:"level,omitempty"`
	// Prototype of the pioneer.
	Prototype string `json:"prototype"`
	// At is the end of the pioneer.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// Message explains the failure.
	// +optional
	Message string `json:"message,omitempty"`
}
