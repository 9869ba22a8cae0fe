package v1alpha1

// DonorName names the donor for a message. A capture of an earlier version may have ended without a donor.
func (s PrototypeSpec) DonorName() string {
	if s.Donor.NodeName == "" {
		return "a new node"
	}
	return "node " + s.Donor.NodeName
}

// CopiesDonor reports whether the donor stays in service, and a copy of its disk is generalized.
func (s Settings) CopiesDonor() bool { return s.Donor.Method == MethodCopy }

// StaysInService reports whether the donor is in service during the whole capture. A pioneer is drained for its patch.
func (s PrototypeSpec) StaysInService() bool { return s.Settings.CopiesDonor() && s.Pioneer == nil }

// CaptureMethod is how the disk of a donor becomes an image.
// +kubebuilder:validation:Enum=Copy;InPlace
type CaptureMethod string

const (
	// MethodCopy copies the disk of a donor in service, and generalizes the copy.
	MethodCopy CaptureMethod = "Copy"
	// MethodInPlace generalizes the donor's own disk, and copies the disk of the donor that is off.
	MethodInPlace CaptureMethod = "InPlace"
)
