package v1alpha1_test

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestTraits: the meaning of each profile; an unknown profile allows nothing.
func TestTraits(t *testing.T) {
	for profile, want := range map[v1alpha1.Profile]v1alpha1.Traits{
		v1alpha1.ProfileStatic:    {RemovesBootstrap: true, DonorMayReturn: true},
		v1alpha1.ProfileEKS:       {DonorMayReturn: true},
		v1alpha1.ProfileBootstrap: {},
		"":                        {},
		"Static":                  {},
	} {
		if got := profile.Traits(); got != want {
			t.Errorf("%q: %+v, want %+v", profile, got, want)
		}
	}
}
