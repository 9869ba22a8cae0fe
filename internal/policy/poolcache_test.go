package policy_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/testing/memory"
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

// TestAllReadersShareAList: a reader with a limit of age reads the last list or the last error, and each new list is
// counted. Old instances leave the memory.
func TestAllReadersShareAList(t *testing.T) {
	clock := memory.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	there := memory.New(memory.Config{Now: clock.Now})
	pool := there.AddPool(memory.PoolSpec{Name: "pool1"})
	there.AddInstance(pool, "0")
	var fail memory.Outcome
	provider := memory.NewFaulty(there, nil)
	provider.Inject(func(memory.Call) memory.Outcome { return fail })
	looks, listed := policy.NewPoolCache(provider, clock.Now), 0
	looks.Listed = func(cloud.PoolID, []cloud.Instance) { listed++ }
	lists := func() (n int) {
		for _, c := range provider.Calls() {
			if c.Op == "Instances" {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		after, maxAge time.Duration
		fail          memory.Outcome
		requests      int
		nodes         int
		fails         bool
	}{
		{maxAge: time.Hour, requests: 1, nodes: 1},
		{after: time.Minute, maxAge: 2 * time.Minute, nodes: 1},
		{after: time.Minute, maxAge: 2 * time.Minute, requests: 1, nodes: 1},
		{maxAge: 0, requests: 1, nodes: 1},
		{maxAge: 0, fail: memory.FailBefore(cloud.Denied), requests: 1, nodes: 1, fails: true},
		{after: 9 * time.Minute, maxAge: time.Hour, nodes: 1, fails: true},
		{after: time.Minute, maxAge: time.Hour, requests: 1, nodes: 1},
	} {
		clock.Advance(step.after)
		fail = step.fail
		before, counted := lists(), listed
		list, err := looks.Instances(t.Context(), pool, step.maxAge)
		if requests := lists() - before; requests != step.requests || len(list.Instances) != step.nodes || (err != nil) != step.fails {
			t.Errorf("%+v: %d requests, %+v, %v", step, requests, list, err)
		}
		if got, want := listed-counted, step.requests; got != want && !step.fails {
			t.Errorf("%+v: %d lists are counted, want %d", step, got, want)
		}
	}
	everything := func(cloud.PoolID) bool { return true }
	if looks.Keep(everything); looks.LastInstances(pool).Instances == nil {
		t.Error("a fresh list is gone")
	}
	clock.Advance(time.Hour)
	if looks.Keep(everything); looks.LastInstances(pool).Instances != nil {
		t.Error("an old list stays in the memory")
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
