package policy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/selection"
)

// maxCompared limits the candidates that Kamino compares by their pods, at the cost of one list of pods each.
const maxCompared = 10

// profileOf returns the profile of the pool: from the settings or, without a profile, from the way in which the nodes join. The nodes
// of a pool join in one way, so one node shows the profile of all. Decider keeps it until that node or the pool's image changes. Empty:
// unknown.
func (d *Decider) profileOf(ctx context.Context, o *PoolOutcome, nodes []*corev1.Node) v1alpha1.Profile {
	if profile := o.Settings.Generalize.Profile; profile != "" || d.Joins == nil || len(nodes) == 0 {
		return profile
	}
	seen := poolProfile{node: nodes[0].UID, image: o.Look.Pool.Recipe.Image}
	if known, found := d.profiles.Load(o.Pool.ID); found {
		if known := known.(poolProfile); known.node == seen.node && known.image == seen.image {
			return known.profile
		}
	}
	// The preflight reports an error or an unknown profile before a capture begins.
	answer, err := d.Joins(ctx, bootstrapkind.With(nodes[0], o.Look.Pool, o.Look.Images))
	if err != nil || answer.Profile == "" {
		return ""
	}
	seen.profile = answer.Profile
	d.profiles.Store(o.Pool.ID, seen)
	return answer.Profile
}

// poolProfile is a profile, with what it was read from.
type poolProfile struct {
	node    types.UID
	image   string
	profile v1alpha1.Profile
}

// prefer orders candidates that the rules rank equal by their evictions. A node without a list of pods comes last. A donor
// that stays in service disrupts nothing.
// With bestOnly, the order of the other candidates is not needed.
func (d *Decider) prefer(ctx context.Context, o *PoolOutcome, bestOnly bool, now time.Time) {
	if d.Evictions == nil || !o.comparesPods() {
		return
	}
	pool := selection.PoolState{Name: o.Pool.Name, Nodes: d.Nodes.Of(o.Pool.ID), Reserved: reserved(d)}
	evictions := map[string]int{}
	for i, candidate := range o.Choice.Candidates {
		if i == maxCompared || bestOnly && !equalRank(candidate, o.Choice.Candidates[0]) {
			break
		}
		n, err := d.Evictions(ctx, candidate.Node, o.Settings.Drain)
		if err != nil {
			continue
		}
		evictions[candidate.Node] = n
		if bestOnly && n == 0 {
			break // no other candidate has fewer
		}
	}
	before := o.Choice
	o.Choice.Prefer(pool, evictions)
	if before.Donor == nil || o.Status.Donor != before.Donor.Name {
		return
	}
	// The decision stays, and now names this node.
	o.Status.Donor = o.Choice.Donor.Name
	switch o.Status.Decision.Message {
	case before.Message:
		o.Status.Decision.Message = o.Choice.Message
	case o.wouldCapture(before.Donor.Name, now):
		o.Status.Decision.Message = o.wouldCapture(o.Choice.Donor.Name, now)
	}
}

// comparesPods reports whether the pods of candidates can decide between them.
func (o *PoolOutcome) comparesPods() bool {
	return (!o.Settings.CopiesDonor() || o.pioneer != nil) && len(o.Choice.Candidates) > 1
}

// equalRank reports whether the rules rank two candidates equal.
func equalRank(a, b selection.NodeVerdict) bool {
	return a.Score == b.Score && a.ZoneNodes == b.ZoneNodes && (a.FailedToday == "") == (b.FailedToday == "")
}
