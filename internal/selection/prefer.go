package selection

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Prefer sorts the candidates: no failure today, then higher scores, then fewer evictions. Nodes with an unknown number of evictions
// come last.
func (c *Choice) Prefer(pool PoolState, evictions map[string]int) {
	if len(c.Candidates) == 0 {
		return
	}
	slices.SortStableFunc(c.Candidates, func(a, b NodeVerdict) int {
		if (a.FailedToday == "") != (b.FailedToday == "") {
			return cmp.Compare(len(a.FailedToday), len(b.FailedToday))
		}
		evictsA, knownA := evictions[a.Node]
		evictsB, knownB := evictions[b.Node]
		unknown := 0
		switch {
		case knownA && !knownB:
			unknown = -1
		case knownB && !knownA:
			unknown = 1
		}
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ZoneNodes, a.ZoneNodes), unknown, cmp.Compare(evictsA, evictsB))
	})
	best := c.Candidates[0].Node
	i := slices.IndexFunc(pool.Nodes, func(n *corev1.Node) bool { return n.Name == best })
	if i < 0 {
		return
	}
	c.Best = pool.Nodes[i]
	if c.Donor == nil {
		return
	}
	c.Donor, c.Message = c.Best, chosen(pool.Name, c.Candidates)
	c.Obstacle = c.Message
}
