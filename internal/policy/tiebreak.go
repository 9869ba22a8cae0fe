package policy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/selection"
)

// maxCompared candidates are told apart by their pods, which takes a list of each one's.
const maxCompared = 10

// leaves tells whether a donor of the pool would not return: by the settings, and where they name no profile by how the nodes
// join, of which each of a pool's speaks for all. What is found is kept: a pool's nodes join in one way, and each Prototype is
// given its own answer when it is decided.
func (d *Decider) leaves(ctx context.Context, o *Outcome, nodes []*corev1.Node) bool {
	settings := o.Settings
	if settings.Generalize.Profile != "" || settings.Donor.Afterwards != "" || d.Joins == nil || len(nodes) == 0 {
		return settings.DonorLeaves()
	}
	if known, found := d.profiles.Load(o.Pool.ID); found {
		settings.Generalize.Profile = known.(v1alpha1.Profile)
		return settings.DonorLeaves()
	}
	// Who can't be asked, or does not know, is told when the capture is to begin.
	if answer, err := d.Joins(ctx, bootstrapkind.With(nodes[0], o.Look.Pool, o.Look.Images)); err == nil && answer.Profile != "" {
		d.profiles.Store(o.Pool.ID, answer.Profile)
		settings.Generalize.Profile = answer.Profile
	}
	return settings.DonorLeaves()
}

// prefer orders the best candidates by what their capture would cost others, where the rules find them alike. A node
// whose pods can't be listed stays behind those whose can. With bestOnly the order of the other candidates is not needed.
func (d *Decider) prefer(ctx context.Context, o *Outcome, bestOnly bool, now time.Time) {
	if d.DisruptionCost == nil || len(o.Choice.Candidates) < 2 {
		return
	}
	pool := selection.Pool{Name: o.Pool.Name, Nodes: d.Nodes.Of(o.Pool.ID), Reserved: reserved(d)}
	leaves := d.leaves(ctx, o, pool.Nodes)
	pool.Leaves = func(*corev1.Node) bool { return leaves }
	burdens := map[string]selection.DisruptionCost{}
	for i, candidate := range o.Choice.Candidates {
		if i == maxCompared || bestOnly && !alike(candidate, o.Choice.Candidates[0]) {
			break
		}
		b, err := d.DisruptionCost(ctx, candidate.Node, o.Settings.Drain, leaves)
		if err != nil {
			continue
		}
		burdens[candidate.Node] = b
		if bestOnly && b.Evictions == 0 && (!leaves || b.Heavy() == 0) {
			break // no other one costs less
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

// alike reports whether the rules find two candidates equally good.
func alike(a, b selection.Verdict) bool {
	return a.Score == b.Score && (a.FailedToday == "") == (b.FailedToday == "")
}
