package v1alpha1

// Traits are the meaning of a profile besides its rules, which package generalize stores under the profile's name.
//
// +kubebuilder:object:generate=false
type Traits struct {
	// RemovesBootstrap: the bootstrap of a node runs once, and the image contains the result, so the recipe loses the
	// bootstrap.
	RemovesBootstrap bool
	// DonorMayReturn: the donor's own disk keeps the files to serve again after a boot.
	DonorMayReturn bool
}

var traits = map[Profile]Traits{
	ProfileStatic:    {RemovesBootstrap: true, DonorMayReturn: true},
	ProfileEKS:       {DonorMayReturn: true},
	ProfileBootstrap: {}, // its rules take the credential off that the donor itself joins with
}

// Profiles are all built-in profiles, in the order of display.
func Profiles() []Profile { return []Profile{ProfileStatic, ProfileEKS, ProfileBootstrap} }

// Traits of the profile. With an unknown profile, the recipe loses nothing, and no donor returns.
func (p Profile) Traits() Traits { return traits[p] }
