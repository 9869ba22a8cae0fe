package policy

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/nodecache"
)

// listingPace is how often instances are listed while something may be said of them.
func listingPace(limits joinhealth.Limits) time.Duration { return within(censusPace, limits.Join/3) }

// Growth is what is known of pods that wait for nodes, so that pools may grow. Safe for concurrent use.
type Growth struct {
	// expected is when it was last said, and heeded when a pass was last worth making because of it, in nanoseconds.
	expected, heeded atomic.Int64
}

// Expect says that pods wait for nodes now, and tells whether it is time for a pass because of that.
func (g *Growth) Expect(now time.Time) bool {
	g.expected.Store(now.UnixNano())
	if now.UnixNano()-g.heeded.Load() < int64(censusPace) {
		return false
	}
	g.heeded.Store(now.UnixNano())
	return true
}

// lately tells whether that was said a short time ago.
func (g *Growth) lately(now time.Time) bool {
	return now.UnixNano()-g.expected.Load() <= int64(latePace)
}

// askGrowth asks for the pool alone, which is one request, whether it has become larger than its nodes.
func (d *prober) askGrowth(ctx context.Context, t *watched, sum nodecache.Sum, now time.Time) error {
	t.asked = now
	seen, err := d.Cloud.Pool(ctx, t.pool.ID)
	if err != nil {
		return err
	}
	if seen.Capacity > int64(sum.Nodes) || seen.Capacity != t.look.Pool.Capacity || seen.Recipe.Image != t.look.Pool.Recipe.Image {
		d.Looks.Forget(t.pool.ID)
	}
	return nil
}

// read has the cloud tell of the pool and, if something may be said of them, of its instances, as seldom as may be.
func (d *prober) read(ctx context.Context, census cloud.InstanceLister, t *watched, sum nodecache.Sum, active bool, limits joinhealth.Limits, now time.Time) error {
	life, listing := idleLookLife, listingPace(limits)
	switch {
	case active:
		life = listing
	case history.Unacknowledged(t.look.Images) != nil:
		life = frozenLife
	}
	var err error
	if t.look, err = d.Looks.At(ctx, t.pool.ID, life); err != nil {
		return err
	}
	if sign := t.signOf(sum); sign != t.sign {
		t.sign = sign
		active = active || t.look.Pool.Capacity > int64(sum.Nodes)
	} else if active && now.Sub(t.listed) < listing && !latecomers(t.joins, t.listed, now, limits) {
		return nil
	}
	// What never becomes a Node, and is removed and ordered anew, leaves no other sign than that the pool lacks nodes.
	lacks := t.look.Pool.Capacity > int64(sum.Nodes) && t.look.At.After(t.census)
	if !active && !lacks {
		return nil
	}
	if t.instances, err = census.Instances(ctx, t.pool.ID); err != nil {
		return err
	}
	t.listed, t.census = now, now
	return nil
}

// latecomers tells whether an instance has run for all its time since they were listed, or one is late and may be gone.
func latecomers(joins []joinhealth.Join, listed, now time.Time, limits joinhealth.Limits) bool {
	return slices.ContainsFunc(joins, func(join joinhealth.Join) bool {
		if join.Outcome != joinhealth.Waiting || join.Running.IsZero() {
			return false
		}
		due := join.Running.Add(limits.Join)
		return due.After(listed) && !due.After(now) || !join.OverdueSince.IsZero() && now.Sub(listed) >= within(latePace, limits.Unready/2)
	})
}
