package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

// compare counts the nodes of other images than the pool's version, in this pool and in all pools. Arriving nodes are left
// out: in a small cluster, a few new nodes that do not join would look like an outage of the whole cluster.
func (t *watchedPool) compare(sums map[cloud.PoolID]nodecache.Summary) {
	t.others, t.ready = t.ownOthers, t.ownReady
	for id, sum := range sums {
		if id != t.pool.ID {
			t.others, t.ready = t.others+sum.Nodes-sum.Arriving, t.ready+sum.Ready
		}
	}
}

// unhealthy reports whether too few of the other nodes are Ready.
func (t *watchedPool) unhealthy() bool {
	return t.others > 0 && t.ready*100 < t.others*joinhealth.Healthy
}

// withoutSuspects leaves out the nodes of versions that mostly fail themselves: they say nothing about the versions of other pools.
func (d *joinTracker) withoutSuspects(sums map[cloud.PoolID]nodecache.Summary, now time.Time) map[cloud.PoolID]nodecache.Summary {
	kept := maps.Clone(sums)
	for id, t := range d.watches {
		if _, known := kept[id]; known && joinhealth.MostFail(now, t.joins, t.version) {
			kept[id] = nodecache.Summary{Nodes: t.ownOthers, Ready: t.ownReady}
		}
	}
	return kept
}

// isOfDay reports whether the versions of two pools were built less than a day apart, so that one bad package can be in both.
func (t *watchedPool) isOfDay(other *watchedPool) bool {
	own, its := t.builtAt(), other.builtAt()
	return !own.IsZero() && !its.IsZero() && own.Sub(its).Abs() < 24*time.Hour
}

func (t *watchedPool) builtAt() time.Time {
	at := slices.IndexFunc(t.look.Images, func(i cloud.Image) bool { return t.version != "" && i.Version == t.version })
	if at < 0 {
		return time.Time{}
	}
	return history.BuiltAt(t.look.Images[at])
}
