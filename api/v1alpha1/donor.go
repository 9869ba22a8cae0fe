package v1alpha1

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

// ReplacesDonor reports whether Kamino removes the donor after the copy of the disk. An added donor always leaves.
func (s PrototypeSpec) ReplacesDonor() bool { return s.AddsDonor() || s.Settings.ReplacesDonor() }

// GrowsFirst reports whether the pool grows by a node before Kamino drains the donor.
func (s PrototypeSpec) GrowsFirst() bool { return s.AddsDonor() || s.Settings.GrowsFirst() }
