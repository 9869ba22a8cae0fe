package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// warmPool is the warm pool of a pool. next numbers its instances.
type warmPool struct {
	limits    cloud.WarmLimits
	instances []warmInstance
	changing  int
	next      int
}

// warmInstance waits with the image that the recipe named when it was launched.
type warmInstance struct{ id, image string }

// SetWarmPool gives a pool a warm pool, or changes its limits, as the user's client does.
func (c *pools) SetWarmPool(id cloud.PoolID, limits cloud.WarmLimits) {
	defer c.enter()()
	p := c.mustPool(id)
	if p.warm == nil {
		p.warm = &warmPool{}
	}
	p.warm.limits = limits
	c.balanceWarm(p)
}

// balanceWarm ends surplus instances of the warm pool, and launches missing ones from the recipe. Both take Latency.Start.
func (c *pools) balanceWarm(p *pool) {
	w := p.warm
	want := int(w.limits.Of(cloud.Pool{Capacity: p.capacity, MaxSize: p.spec.MaxSize}))
	for len(w.instances) > want {
		at := 0
		if c.config.EndsNewestWarm {
			at = len(w.instances) - 1
		}
		w.instances = slices.Delete(w.instances, at, at+1)
		w.changing++
		c.after(c.config.Latency.Start, func() { w.changing-- })
	}
	for range want - len(w.instances) - w.changing {
		w.changing++
		w.next++
		one := warmInstance{fmt.Sprintf("%s/warm/%d", p.id, w.next), p.recipe.image}
		c.after(c.config.Latency.Start, func() {
			w.changing--
			w.instances = append(w.instances, one)
			c.balanceWarm(p)
		})
	}
}

// warmView is the warm pool as the cloud shows it.
func (p *pool) warmView() *cloud.WarmPool {
	if p.warm == nil {
		return nil
	}
	out := &cloud.WarmPool{Limits: p.warm.limits, Changing: p.warm.changing}
	for _, one := range p.warm.instances {
		out.Instances = append(out.Instances, cloud.Instance{ID: cloud.InstanceID(one.id), Image: one.image})
	}
	return out
}

// ResizeWarmPool implements cloud.PoolProvider.
func (c *PoolProvider) ResizeWarmPool(ctx context.Context, id cloud.PoolID, from, to cloud.WarmLimits) error {
	defer c.enter()()
	p, err := c.admitPool(ctx, opResizeWarmPool, id)
	switch {
	case err != nil:
		return err
	case p.warm == nil:
		return refused(cloud.NotFound, opResizeWarmPool, string(id), "NoWarmPool", "the pool has no warm pool")
	case p.warm.limits == to:
		return nil
	case p.warm.limits != from:
		return refused(cloud.Conflict, opResizeWarmPool, string(id), "Changed", "another client changed the warm pool")
	}
	p.warm.limits = to
	c.record(ByCaller, EffectResizeWarmPool, string(id))
	c.balanceWarm(p)
	return nil
}
