package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verified describes the rules and searches on the disk of an image version.
type Verified struct {
	// Profile and version of the profile. The version ends in a digest of all rules, including the user's rules.
	Profile        Profile `json:"profile"`
	ProfileVersion string  `json:"profileVersion"`
	// ToolVersion is the Kamino version on the donor.
	// +optional
	ToolVersion string `json:"toolVersion,omitempty"`
	// Rules that were tested and passed, and the number of rules that made changes.
	// +kubebuilder:validation:Maximum=9007199254740991
	Rules int64 `json:"rules"`
	// +kubebuilder:validation:Maximum=9007199254740991
	Changed int64 `json:"changed"`
	// Files and Bytes searched for keys, tokens and identities.
	// +kubebuilder:validation:Maximum=9007199254740991
	Files int64 `json:"files"`
	// +kubebuilder:validation:Maximum=9007199254740991
	Bytes int64 `json:"bytes"`
	// Identities of the donor in the search.
	// +kubebuilder:validation:Maximum=9007199254740991
	Identities int64 `json:"identities"`
	// Findings that are forbidden: always 0 for an existing version.
	// +kubebuilder:validation:Maximum=9007199254740991
	Findings int64 `json:"findings"`
	// Kept is the number of findings allowed with a reason in the manifest.
	// +kubebuilder:validation:Maximum=9007199254740991
	Kept int64 `json:"kept"`
	// Credentials are the client certificates in the image.
	// +optional
	// +listType=atomic
	Credentials []Credential `json:"credentials,omitempty"`
	// RulesDigest of the user's rules; absent without own rules.
	// +optional
	RulesDigest string `json:"rulesDigest,omitempty"`
	// ManifestDigest of /var/lib/kamino/generalize.json on the disk.
	ManifestDigest string `json:"manifestDigest"`
	// At is when the run ended, by the donor's clock.
	At metav1.Time `json:"at"`
}

// Tag is the verification in the form of tags of snapshots and image versions, at most 256 characters: words as name=value.
func (v *Verified) Tag() string {
	return fmt.Sprintf("rules=%d changed=%d files=%d bytes=%d identities=%d findings=%d kept=%d tool=%.64s",
		v.Rules, v.Changed, v.Files, v.Bytes, v.Identities, v.Findings, v.Kept, v.ToolVersion)
}
