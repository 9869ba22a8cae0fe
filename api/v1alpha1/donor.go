package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AddsDonor reports whether Kamino adds the donor to the pool for the capture (pioneer.node Grow).
func (s PrototypeSpec) AddsDonor() bool { return s.Pioneer != nil && s.Pioneer.Node == PioneerGrow }

// AwaitsDonor reports whether the pool has yet to grow by the donor.
func (s PrototypeSpec) AwaitsDonor() bool { return s.AddsDonor() && s.Donor == Donor{} }

// DonorName names the donor for a message. The donor may not exist yet.
func (s PrototypeSpec) DonorName() string {
	if s.Donor.NodeName == "" {
		return "a new node"
	}
	return "node " + s.Donor.NodeName
}

// WithoutAddedDonor returns the spec for a new Prototype. Before its creation, the spec names a node like the added donor, for
// checks of the pool.
func (s PrototypeSpec) WithoutAddedDonor() PrototypeSpec {
	if s.AddsDonor() {
		s.Donor = Donor{}
	}
	return s
}

// CopiesDonor reports whether the donor stays in service, and a copy of its disk is generalized.
func (s Settings) CopiesDonor() bool { return s.Donor.Method == MethodCopy }

// StaysInService reports whether the donor is in service during the whole capture. A pioneer is drained for its patch.
func (s PrototypeSpec) StaysInService() bool { return s.Settings.CopiesDonor() && s.Pioneer == nil }

// ReplacesDonor reports whether Kamino removes the donor after the copy of the disk.
func (s Settings) ReplacesDonor() bool {
	if s.CopiesDonor() {
		return false
	}
	switch s.Donor.AfterCapture {
	case ReturnDonor:
		return false
	case RemoveDonor:
		return true
	}
	return !s.Profile().Traits().DonorMayReturn
}

// ReplacesDonor reports whether Kamino removes the donor after the copy of the disk. An added donor always leaves.
func (s PrototypeSpec) ReplacesDonor() bool { return s.AddsDonor() || s.Settings.ReplacesDonor() }

// GrowsFirst reports whether the pool grows by a node before Kamino drains the donor.
func (s PrototypeSpec) GrowsFirst() bool { return s.AddsDonor() || s.Settings.GrowsFirst() }

// CaptureMethod is how the disk of a donor becomes an image.
// +kubebuilder:validation:Enum=Copy;InPlace
type CaptureMethod string

const (
	// MethodCopy copies the disk of a donor in service, and generalizes the copy.
	MethodCopy CaptureMethod = "Copy"
	// MethodInPlace generalizes the donor's own disk, and copies the disk of the donor that is off.
	MethodInPlace CaptureMethod = "InPlace"
)

// CarryOver names labels and taints of nodes by key.
type CarryOver struct {
	// Labels are keys of labels. A key that the donor lacks is ignored.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('node-role.kubernetes.io/') || !k.matches('^([^/]*[.])?(kubernetes[.]io|k8s[.]io|kamino[.]dev)/'))",message="labels of kubernetes.io, k8s.io and kamino.dev describe the node itself: name other keys, or keys of node-role.kubernetes.io"
	Labels []string `json:"labels,omitempty"`

	// Taints are keys of taints. The replacement gets the donor's taints with a key in place of its own.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('node-role.kubernetes.io/') || !k.matches('^([^/]*[.])?(kubernetes[.]io|k8s[.]io|kamino[.]dev)/'))",message="taints of kubernetes.io, k8s.io and kamino.dev describe the node itself: name other keys, or keys of node-role.kubernetes.io"
	Taints []string `json:"taints,omitempty"`
}

// Of returns the labels and taints of the Node with these keys.
func (c CarryOver) Of(n *corev1.Node) (labels map[string]string, taints []corev1.Taint) {
	labels = map[string]string{}
	for _, key := range c.Labels {
		if value, found := n.Labels[key]; found {
			labels[key] = value
		}
	}
	for _, taint := range n.Spec.Taints {
		if slices.Contains(c.Taints, taint.Key) {
			taint.TimeAdded = nil
			taints = append(taints, taint)
		}
	}
	return labels, taints
}
