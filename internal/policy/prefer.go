package policy

import (
	"context"

	"github.com/kamino-dev/kamino/internal/selection"
)

// maxCompared candidates are told apart by their pods, which takes a list of each one's.
const maxCompared = 10

// prefer orders the best candidates by what their capture would cost others, where the rules find them alike. A node
// whose pods can't be listed stays behind those whose can.
func (d *Decider) prefer(ctx context.Context, o *Outcome) {
	if d.Evictions == nil || len(o.Choice.Candidates) < 2 {
		return
	}
	evictions := map[string]int{}
	for _, candidate := range o.Choice.Candidates[:min(len(o.Choice.Candidates), maxCompared)] {
		if n, err := d.Evictions(ctx, candidate.Node, o.Settings.Drain); err == nil {
			evictions[candidate.Node] = n
		}
	}
	o.Choice.Prefer(selection.Pool{Name: o.Pool.Name, Nodes: d.Nodes.Of(o.Pool.ID)}, evictions)
}
