package selection

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPrefer: of equal candidates, the one whose drain evicts fewest pods is chosen. A node with unknown pods comes last.
func TestPrefer(t *testing.T) {
	candidates := []NodeVerdict{
		{Node: "failed", Score: 9, FailedToday: "DrainTimeout"}, {Node: "unknown", Score: 2}, {Node: "crowded", Score: 2},
		{Node: "quiet", Score: 2}, {Node: "fuller-zone", Score: 2, ZoneNodes: 3}, {Node: "higher", Score: 3},
	}
	want := []string{"higher", "fuller-zone", "quiet", "crowded", "unknown", "failed"}
	rapid.Check(t, func(t *rapid.T) {
		c := Choice{Candidates: rapid.Permutation(candidates).Draw(t, "candidates")}
		c.Prefer(PoolState{}, map[string]int{"failed": 0, "crowded": 30, "quiet": 2, "fuller-zone": 40, "higher": 50})
		var got []string
		for _, v := range c.Candidates {
			got = append(got, v.Node)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
