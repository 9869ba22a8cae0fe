package v1alpha1

// Traits are what a profile means beside its rules, which package generalize keeps under its name.
//
// +kubebuilder:object:generate=false
type Traits struct {
	// RemovesBootstrap: a node is bootstrapped once and for all, so that what does it leaves the recipe.
	RemovesBootstrap bool
	// DonorMayReturn: the donor's own disk keeps what it needs to serve again after a boot.
	DonorMayReturn bool
}

var traits = map[Profile]Traits{
	ProfileStatic:    {RemovesBootstrap: true, DonorMayReturn: true},
	ProfileEKS:       {DonorMayReturn: true},
	ProfileBootstrap: {}, // its rules take the credential off that the donor itself joins with
}

// Profiles are all that come with Kamino, in the order in which people are shown them.
func Profiles() []Profile { return []Profile{ProfileStatic, ProfileEKS, ProfileBootstrap} }

// Traits of the profile. Of one that is not known nothing leaves the recipe, and no donor returns.
func (p Profile) Traits() Traits { return traits[p] }
