package memory

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// CanRebuild implements cloud.PoolProvider.
func (c *PoolProvider) CanRebuild(cloud.PoolID) bool { return true }

// EnsureRebuilt implements cloud.PoolProvider. The rebuild takes Latency.Start. The instance shows the version from the
// beginning, like a cloud that updates the model before the disk.
func (c *PoolProvider) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opEnsureRebuilt, id)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	p, err := c.findPool(opEnsureRebuilt, m.owner)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	switch {
	case m.rebuilding || m.power == cloud.PowerStarting || m.power == cloud.PowerStopping:
		return cloud.Rebuild{State: cloud.Pending}, nil
	case m.builtFrom == version && !m.broken && m.power == cloud.PowerRunning:
		return cloud.Rebuild{State: cloud.Complete}, nil
	case m.builtFrom == version && !m.broken:
		c.record(ByCaller, EffectStart, string(m.id))
		c.start(m)
		return cloud.Rebuild{State: cloud.Pending}, nil
	case c.recipeVersion(p) != version:
		return cloud.Rebuild{}, refused(cloud.Conflict, opEnsureRebuilt, string(m.id), "OtherRecipe", "the pool's recipe names "+p.recipe.image)
	}
	out := cloud.Rebuild{State: cloud.Pending}
	if m.broken {
		out.Trouble = "the last rebuild of the instance failed"
	}
	c.record(ByCaller, EffectRebuild, string(m.id))
	m.image, m.builtFrom, m.bootstrap = p.recipe.image, version, slices.Clone(p.recipe.bootstrap)
	m.rebuilding = true
	c.setPower(m, cloud.PowerStarting)
	c.after(c.config.Latency.Start, func() {
		if m.gone {
			return
		}
		m.rebuilding = false
		if n := c.failing.rebuilds[m.id]; n > 0 {
			c.failing.rebuilds[m.id] = n - 1
			m.broken = true
			c.setPower(m, cloud.PowerStopped)
			return
		}
		m.broken = false
		c.setPower(m, cloud.PowerRunning)
	})
	return out, nil
}

// FailRebuilds makes the next rebuilds of an instance fail, each after its duration.
func (c *controls) FailRebuilds(id cloud.InstanceID, times int) {
	defer c.enter()()
	if m, ok := c.lookup(id); ok {
		c.failing.rebuilds[m.id] = times
	}
}
