package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// EnsureRemoved implements cloud.PoolProvider. The pool shrinks at once, and the instance is gone after Latency.Delete.
func (c *PoolProvider) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opEnsureRemoved, id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	case m.removing:
		return cloud.Deleting, nil
	}
	p, err := c.findPool(opEnsureRemoved, m.owner)
	if err != nil {
		return cloud.Absent, err
	}
	m.removing = true
	p.capacity = max(0, p.capacity-1)
	c.record(ByCaller, EffectRemoveInstance, string(m.id))
	c.after(c.config.Latency.Delete, func() {
		if !m.gone {
			c.drop(m)
		}
	})
	return cloud.Deleting, nil
}
