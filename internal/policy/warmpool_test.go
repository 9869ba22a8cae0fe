package policy_test

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// newWarm is a pool after a promotion, with a warm pool of the image before.
func newWarm(t *testing.T, change func(*v1alpha1.PrototypePolicySpec)) *promotedPool {
	t.Helper()
	on := newTestEnv(t)
	on.inMemory()
	s := trustOn(on, change)
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+s.good)
	s.cloud.SetWarmPool(s.pool, cloud.WarmLimits{Min: 3})
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+s.bad)
	s.decider.Permissions = s.calls.Permissions
	s.decider.PoolCache.Forget(s.pool)
	s.decider.Nodes.News()
	return s
}

// warmLine describes the warm pool.
func (s *promotedPool) warmLine() string {
	s.Helper()
	pool := s.seen()
	if want := (cloud.WarmLimits{Min: 3}); pool.Warm.Limits != want {
		s.Errorf("the limits are %+v, want %+v", pool.Warm.Limits, want)
	}
	return pool.Warm.Line(pool.Recipe)
}

// TestWarmPoolIsRenewedWithThePermission: the permissions of warm pools are the opt-in. Without them, or with a suspended policy or one
// without effects, the warm pool stays.
func TestWarmPoolIsRenewedWithThePermission(t *testing.T) {
	for name, test := range map[string]struct {
		policy  func(*v1alpha1.PrototypePolicySpec)
		prepare func(*promotedPool)
		renewed bool
	}{
		"with the permission":           {nil, nil, true},
		"without":                       {nil, func(s *promotedPool) { s.cloud.Forbid("ResizeWarmPool") }, false},
		"without a list of permissions": {nil, func(s *promotedPool) { s.decider.Permissions = nil }, false},
		"a suspended policy":            {func(spec *v1alpha1.PrototypePolicySpec) { spec.Suspend = true }, nil, false},
		"a dry run":                     {func(spec *v1alpha1.PrototypePolicySpec) { spec.DryRun = true }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWarm(t, test.policy)
			if test.prepare != nil {
				test.prepare(s)
			}
			s.last(60)
			want := map[bool]string{true: "warm: 3 of 3 from ", false: "warm: 0 of 3 from "}[test.renewed] + s.bad
			if got := s.warmLine(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if n := s.writes()["ResizeWarmPool"]; (n > 0) != test.renewed {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestRenewalSurvivesARestart: a new process ends the renewal that another began, also after the permission is gone.
func TestRenewalSurvivesARestart(t *testing.T) {
	s := newWarm(t, nil)
	shrunk := false
	s.calls.Inject(func(c memory.Call) memory.Outcome {
		shrunk = shrunk || c.Op == "ResizeWarmPool"
		return memory.Pass()
	})
	for range 30 {
		if s.last(1); shrunk {
			break
		}
	}
	s.calls.Inject(nil)
	s.restart()
	s.decider.Permissions = nil
	s.last(90)
	if line := s.warmLine(); !shrunk || line == "warm: 0 of 3 from "+s.bad {
		t.Errorf("after a restart: %s", line)
	}
}
