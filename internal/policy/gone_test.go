package policy_test

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestTheCurrentVersionIsGone: the policy reports the version with the remedy, counts as stalled, and still captures,
// because a capture makes the pool grow again.
func TestTheCurrentVersionIsGone(t *testing.T) {
	s := newTestEnv(t)
	pool := s.pool("pool1", 3, 20)
	gone := imageversion.Of(s.clock.Now().AddDate(0, 0, -10))
	s.cloud.ChangeRecipe(pool, string(pool)+"/versions/"+gone)
	s.policy("all", nil)
	stalled := map[policy.Stall]bool{}
	s.decider.Observers.Stalled = func(all map[policy.Stall]bool) { stalled = all }
	s.runPass()
	s.stalled("all", v1alpha1.PolicyCurrentVersionMissing, "pool1", gone, "kamino rollback pool1")
	if !stalled[policy.Stall{"all", "pool1", v1alpha1.PolicyCurrentVersionMissing}] {
		t.Errorf("stalled = %v", stalled)
	}
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v, want a capture", got)
	}
}
