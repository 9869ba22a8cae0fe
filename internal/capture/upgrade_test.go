package capture

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestUpgradePolicyAtAnyMoment: before each call, a client sets the pool's upgrade policy to automatic. No running
// instance changes (play checks every pass), and the donor returns. A capture that cannot promote its version explains
// the reason and keeps the version.
func TestUpgradePolicyAtAnyMoment(t *testing.T) {
	whole := inFull(t)
	whole.succeeded(whole.play())
	published := firstCall(whole.calls(), "EnsureImage")
	ends := map[string]int{}
	for n, moment := range whole.calls() {
		if n < published && n%24 != 0 {
			continue // one moment of the long way there is as good as the next
		}
		s := inFull(t)
		s.lose = func(string) memory.Outcome {
			if len(s.calls()) == n+1 {
				s.cloud.SetUpgrades(s.pool, true)
			}
			return memory.Pass()
		}
		// After the promotion the capture waits for a corrected policy, because its pool has yet to grow.
		p := s.play(func(pass int) {
			if pass == 45 {
				s.cloud.SetUpgrades(s.pool, false)
			}
		})
		s.gaveBack()
		promoted := s.cloud.World().Pools[0].Recipe.Version == p.Spec.Version
		switch {
		case p.Status.Phase == v1alpha1.PhaseSucceeded && promoted:
			ends["promoted"]++
		case p.Status.Failure != nil && p.Status.Failure.Reason == memory.ReasonRolls && !promoted:
			ends["refused"]++
			if image, err := s.cloud.Image(t.Context(), s.ref(p)); err != nil || image.State != cloud.Complete && touched(p) {
				t.Errorf("its version is %s (%v), want it to stay", image.State, err)
			}
		default:
			t.Errorf("it ended as %s, promoted %t", verdict(p), promoted)
		}
		if t.Failed() {
			t.Fatalf("the policy changed before call %d (%s)", n, moment)
		}
	}
	t.Logf("ended as %v", ends)
	if ends["refused"] == 0 || ends["promoted"] == 0 {
		t.Error("no moment was before the promotion, or none after it")
	}
}

func (s *testEnv) ref(p *v1alpha1.Prototype) cloud.ImageRef {
	return cloud.ImageRef{Pool: s.pool, Version: p.Spec.Version}
}

// touched reports whether the capture passed its preflight.
func touched(p *v1alpha1.Prototype) bool { return p.Status.Donor != nil }
