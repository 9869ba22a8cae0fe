package policy_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestAStepOfACaptureIsLookedAtAfresh: after a step, no decision uses old facts; a pass without a step changes nothing.
func TestAStepOfACaptureIsLookedAtAfresh(t *testing.T) {
	there := memory.New(memory.Config{})
	pool := there.AddPool(memory.PoolSpec{Name: "pool1"})
	donor := there.AddInstance(pool, "0")
	provider := memory.NewFaulty(there, nil)
	looks := policy.NewPoolCache(provider, time.Now)
	asks := func() bool {
		t.Helper()
		before := len(provider.Calls())
		if _, err := looks.At(t.Context(), pool, time.Hour); err != nil {
			t.Fatal(err)
		}
		return len(provider.Calls()) > before
	}
	at := func(phase v1alpha1.Phase) *v1alpha1.Prototype {
		p := &v1alpha1.Prototype{}
		p.Spec.Donor.ProviderID, p.Status.Phase = string(donor), phase
		return p
	}
	if !asks() || asks() {
		t.Fatal("a look does not stand")
	}
	looks.Observe(t.Context(), at(v1alpha1.PhasePublishing), at(v1alpha1.PhasePublishing))
	if asks() {
		t.Error("a pass that was no step has the cloud asked again")
	}
	looks.Observe(t.Context(), at(v1alpha1.PhasePublishing), at(v1alpha1.PhasePromoting))
	if !asks() {
		t.Error("a step leaves what was known")
	}
}

// TestManyPoolsAreLookedAtTogether: a decision or a plan about many pools lists the recipes once, and reads each pool if
// the cloud refuses the list.
func TestManyPoolsAreLookedAtTogether(t *testing.T) {
	for name, test := range map[string]struct {
		pools, lists, recipes int
		refused               bool
	}{
		"many":    {pools: 20, lists: 1},
		"refused": {pools: 20, lists: 1, recipes: 20, refused: true},
		"two":     {pools: 2, recipes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			for i := range test.pools {
				s.pool(fmt.Sprintf("pool%02d", i), 3, 20)
			}
			s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.DryRun = true })
			s.calls.Inject(func(c memory.Call) memory.Outcome {
				if test.refused && c.Op == "PoolsInScope" {
					return memory.FailBefore(cloud.Denied)
				}
				return memory.Pass()
			})
			asked := func(do func()) map[string]int {
				before, ops := len(s.calls.Calls()), map[string]int{}
				do()
				for _, c := range s.calls.Calls()[before:] {
					ops[c.Op]++
				}
				return ops
			}
			want := map[string]int{"Images": test.pools, "PoolsInScope": test.lists, "Pool": test.recipes}
			maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
			if ops := asked(func() { s.runPass() }); !maps.Equal(ops, want) {
				t.Errorf("a decision: %v, want %v", ops, want)
			}
			s.restart()
			want["Instances"] = test.pools
			if ops := asked(func() {
				policies := &v1alpha1.PrototypePolicyList{}
				s.must(s.client.List(t.Context(), policies))
				_, err := s.decider.Plan(t.Context(), policies.Items, nil)
				s.must(err)
			}); !maps.Equal(ops, want) {
				t.Errorf("a plan: %v, want %v", ops, want)
			}
		})
	}
}
