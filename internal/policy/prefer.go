package policy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/selection"
)

// maxCompared candidates are told apart by their pods, which takes a list of each one's.
const maxCompared = 10

// leaves tells of each node whether it would not return as a donor.
func (o *Outcome) leaves(*corev1.Node) bool { return o.Settings.DonorLeaves() }

// prefer orders the best candidates by what their capture would cost others, where the rules find them alike. A node
// whose pods can't be listed stays behind those whose can.
func (d *Decider) prefer(ctx context.Context, o *Outcome, now time.Time) {
	if d.Burden == nil || len(o.Choice.Candidates) < 2 {
		return
	}
	pool := selection.Pool{Name: o.Pool.Name, Nodes: d.Nodes.Of(o.Pool.ID), Leaves: o.leaves}
	burdens := map[string]selection.Burden{}
	for _, candidate := range o.Choice.Candidates[:min(len(o.Choice.Candidates), maxCompared)] {
		leaves := false
		for _, n := range pool.Nodes {
			leaves = leaves || n.Name == candidate.Node && o.leaves(n)
		}
		if b, err := d.Burden(ctx, candidate.Node, o.Settings.Drain, leaves); err == nil {
			burdens[candidate.Node] = b
		}
	}
	before := o.Choice
	o.Choice.Prefer(pool, burdens)
	if before.Donor == nil || o.Status.Donor != before.Donor.Name {
		return
	}
	// What was decided stands, and is said of this node.
	o.Status.Donor = o.Choice.Donor.Name
	switch o.Status.Decision.Message {
	case before.Message:
		o.Status.Decision.Message = o.Choice.Message
	case o.wouldCapture(before.Donor.Name, now):
		o.Status.Decision.Message = o.wouldCapture(o.Choice.Donor.Name, now)
	}
}
