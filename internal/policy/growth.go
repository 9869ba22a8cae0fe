package policy

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

// listInterval is the interval between two lists of instances while nodes of a pool are new.
func listInterval(limits joinhealth.Limits) time.Duration {
	return shorter(pollInterval, limits.Join/3)
}

// Growth records that pods wait for nodes, so that pools may grow. Safe for concurrent use.
type Growth struct {
	// expected is the time of the last waiting pod, and heeded the time of the last pass for waiting pods, in nanoseconds
	// since 1970.
	expected, heeded atomic.Int64
}

// Expect records that pods wait for nodes now, and reports whether a pass is due because of these pods.
func (g *Growth) Expect(now time.Time) bool {
	g.expected.Store(now.UnixNano())
	if now.UnixNano()-g.heeded.Load() < int64(pollInterval) {
		return false
	}
	g.heeded.Store(now.UnixNano())
	return true
}

// isRecent reports whether a pod waited a short time ago.
func (g *Growth) isRecent(now time.Time) bool {
	return now.UnixNano()-g.expected.Load() <= int64(overdueInterval)
}

// checkGrowth asks the cloud with one request whether the pool has become larger than its nodes.
func (d *joinTracker) checkGrowth(ctx context.Context, t *watchedPool, sum nodecache.Summary, now time.Time) error {
	t.asked = now
	seen, err := d.Cloud.Pool(ctx, t.pool.ID)
	if err != nil {
		return err
	}
	if seen.Capacity > int64(sum.Nodes) || seen.Capacity != t.look.Pool.Capacity || seen.Recipe.Image != t.look.Pool.Recipe.Image {
		d.PoolCache.Forget(t.pool.ID)
	}
	return nil
}

// readCloud asks the cloud for the pool, and for the pool's instances while nodes are new, as seldom as possible.
func (d *joinTracker) readCloud(ctx context.Context, t *watchedPool, sum nodecache.Summary, active bool, limits joinhealth.Limits, now time.Time) error {
	life, listAge := idleMaxAge, listInterval(limits)
	switch {
	case active:
		life = listAge
	case history.Unacknowledged(t.look.Images) != nil:
		life = frozenMaxAge
	}
	var err error
	if t.look, err = d.PoolCache.At(ctx, t.pool.ID, life); err != nil {
		return err
	}
	if fingerprint := t.fingerprintOf(sum); fingerprint != t.fingerprint {
		t.fingerprint = fingerprint
		active, listAge = active || t.look.Pool.Capacity > int64(sum.Nodes), 0
	} else if hasOverdue(t.joins, t.list.At, now, limits) {
		listAge = 0
	}
	// An instance may never become a Node, and the pool may replace the instance. Then missing nodes are the only sign.
	lacks := t.look.Pool.Capacity > int64(sum.Nodes) && t.look.At.After(t.list.At)
	switch {
	case !active && !lacks:
		return nil
	case !active:
		listAge = 0
	}
	t.list, err = d.PoolCache.Instances(ctx, t.pool.ID, listAge)
	return err
}

// hasOverdue reports whether an instance has used up its time since the last list, or is overdue and may be gone.
func hasOverdue(joins []joinhealth.Join, listed, now time.Time, limits joinhealth.Limits) bool {
	return slices.ContainsFunc(joins, func(join joinhealth.Join) bool {
		if join.Outcome != joinhealth.Waiting || join.Running.IsZero() {
			return false
		}
		due := join.Running.Add(limits.Join)
		return due.After(listed) && !due.After(now) || !join.OverdueSince.IsZero() && now.Sub(listed) >= shorter(overdueInterval, limits.Unready/2)
	})
}
