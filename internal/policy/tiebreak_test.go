package policy_test

import (
	"context"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestPlanComparesBestCandidates: a plan names the same donor as the capture, and lists the pods of no more nodes than
// necessary.
func TestPlanComparesBestCandidates(t *testing.T) {
	for name, test := range map[string]struct {
		evictions map[string]int
		score     string
		asked     []string
		best      string
	}{
		"all have pods": {map[string]int{"pool1-0": 3, "pool1-1": 1, "pool1-2": 7}, "", []string{"pool1-0", "pool1-1", "pool1-2"}, "pool1-1"},
		"one has none":  {map[string]int{"pool1-0": 2, "pool1-2": 3}, "", []string{"pool1-1", "pool1-2"}, "pool1-1"},
		"one is better": {map[string]int{"pool1-0": 2, "pool1-2": 3}, `node.metadata.name == "pool1-2" ? 1 : 0`, []string{"pool1-2"}, "pool1-2"},
	} {
		s := newTestEnv(t)
		s.pool("pool1", 3, 20)
		s.policy("all", func(spec *v1alpha1.PrototypePolicySpec) { spec.Selection.Score = test.score })
		var asked []string
		s.decider.Evictions = func(_ context.Context, node string, _ v1alpha1.DrainSettings) (int, error) {
			asked = append(asked, node)
			return test.evictions[node], nil
		}
		plans, err := s.decider.Plan(t.Context(), []v1alpha1.PrototypePolicy{*s.status("all")}, nil)
		s.must(err)
		if best := plans.Pools[0].Choice.Best.Name; best != test.best {
			t.Errorf("%s: %s is best, want %s", name, best, test.best)
		}
		if slices.Sort(asked); !slices.Equal(asked, test.asked) {
			t.Errorf("%s: asked about %v", name, asked)
		}
	}
}
