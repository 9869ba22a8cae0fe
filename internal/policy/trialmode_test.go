package policy_test

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestTheTrialIsFound: a policy's Prototype carries the trial mode, from the pool's abilities unless the policy sets a
// mode. Without an answer of the cloud, Kamino creates no Prototype.
func TestTheTrialIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		profile      v1alpha1.Profile
		poolTroubles v1alpha1.TrialMode
		away         bool
		want         v1alpha1.TrialMode
	}{
		"nothing is missing beside the pool": {profile: v1alpha1.ProfileStatic, want: v1alpha1.TrialApart},
		"an exact copy is in the pool alone": {profile: v1alpha1.ProfileBootstrap, want: v1alpha1.TrialInPool},
		"the policy says where":              {profile: v1alpha1.ProfileStatic, poolTroubles: v1alpha1.TrialInPool, want: v1alpha1.TrialInPool},
		"the policy says nowhere":            {profile: v1alpha1.ProfileBootstrap, poolTroubles: v1alpha1.TrialOff, want: v1alpha1.TrialOff},
		"nobody can tell":                    {profile: v1alpha1.ProfileStatic, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.pool("pool1", 2, 20)
			s.policy("all", func(p *v1alpha1.PrototypePolicySpec) {
				p.Settings.Generalize.Profile, p.Settings.Trial.Mode = c.profile, c.poolTroubles
			})
			if c.away {
				s.calls.Inject(func(call memory.Call) memory.Outcome {
					if call.Op == "PreflightTrial" {
						return memory.FailBefore(cloud.Unavailable)
					}
					return memory.Pass()
				})
			}
			s.pass()
			all := s.prototypes()
			if c.want == "" {
				if got := s.poolStatus("all", "pool1").Decision; len(all) != 0 || got == nil || got.Reason == policy.Capturing {
					t.Errorf("%d prototypes, decided %+v", len(all), got)
				}
				return
			}
			if len(all) != 1 || all[0].Spec.Settings.Trial.Mode != c.want {
				t.Errorf("%d prototypes: %+v, want %s", len(all), all, c.want)
			}
		})
	}
}
