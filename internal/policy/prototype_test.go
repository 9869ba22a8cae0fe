package policy_test

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestPrototypeHasTrialMode: a Prototype has the trial mode of the settings, and a trial without a mode.
func TestPrototypeHasTrialMode(t *testing.T) {
	for mode, want := range map[v1alpha1.TrialMode]v1alpha1.TrialMode{
		"": v1alpha1.TrialApart, v1alpha1.TrialApart: v1alpha1.TrialApart, v1alpha1.TrialOff: v1alpha1.TrialOff,
	} {
		settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: mode}}
		p, err := policy.PoolRef{ID: "id", Name: "pool1"}.Prototype(v1alpha1.Donor{NodeName: "node-1"}, "2026.03.09", settings, nil)
		if err != nil || p.Spec.Settings.Trial.Mode != want || settings.Trial.Mode != mode {
			t.Errorf("mode %q: %+v (%v), want %s", mode, p, err, want)
		}
	}
}
