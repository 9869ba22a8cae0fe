package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var removeMutants = []mutant{
	{"the place stays, and a new instance takes it", "EnsureRemoved is repeated until the instance is gone, and its pool wants one node fewer",
		func(c *memory.Cloud, h *hooks) {
			h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
				state, err := c.EnsureRemoved(ctx, id)
				if err == nil && state == cloud.Deleting {
					pool := c.World().Pools[0]
					_ = c.SetCapacity(ctx, pool.ID, pool.Capacity, pool.Capacity+1)
				}
				return state, err
			}
		}},
	{"it is gone when its removal begins", "EnsureRemoved is repeated until the instance is gone, and its pool wants one node fewer",
		func(c *memory.Cloud, h *hooks) {
			h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
				_, err := c.EnsureRemoved(ctx, id)
				return cloud.Absent, err
			}
		}},
	{"another instance goes", "EnsureRemoved is repeated until the instance is gone, and its pool wants one node fewer", func(c *memory.Cloud, h *hooks) {
		h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
			c.ScaleIn(c.World().Pools[0].ID)
			return c.EnsureRemoved(ctx, id)
		}
	}},
	{"each call takes a place", "removing takes one place from the pool, however often it is asked for", func(c *memory.Cloud, h *hooks) {
		asked := 0
		h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
			if asked++; asked == 2 {
				c.ScaleIn(c.World().Pools[0].ID)
			}
			return c.EnsureRemoved(ctx, id)
		}
	}},
	{"what is held stays", "a stopped and protected instance is removed", func(c *memory.Cloud, h *hooks) {
		h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
			if hold, err := c.Protection(ctx, id); err == nil && hold.Protected {
				return cloud.Deleting, nil
			}
			return c.EnsureRemoved(ctx, id)
		}
	}},
	{"one that does not exist is an error", "removing a missing instance changes nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
			if _, err := c.Instance(ctx, id); cloud.Is(err, cloud.NotFound) {
				return cloud.Absent, err
			}
			return c.EnsureRemoved(ctx, id)
		}
	}},
	{"its snapshots go with it", "a snapshot outlives the instance", func(c *memory.Cloud, h *hooks) {
		h.ensureRemoved = func(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
			for _, snapshot := range c.World().Snapshots {
				_ = c.DeleteSnapshot(ctx, id, snapshot.Name)
			}
			return c.EnsureRemoved(ctx, id)
		}
	}}, {"a growth is reported without a request", "preflight reports a pool that cannot grow before its donor is removed, and only then",
		func(c *memory.Cloud, h *hooks) {
			h.preflight = func(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
				spec.Grows = true
				return c.Preflight(ctx, spec)
			}
		}},
	{"the growth is not thought of", "preflight reports a pool that cannot grow before its donor is removed, and only then", func(c *memory.Cloud, h *hooks) {
		h.preflight = func(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
			spec.Grows = false
			return c.Preflight(ctx, spec)
		}
	}},
	{"the removal is not thought of", "preflight reports an instance that cannot be removed, and only where removal is asked for",
		func(c *memory.Cloud, h *hooks) {
			h.preflight = func(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
				spec.Removes = false
				return c.Preflight(ctx, spec)
			}
		}},
	{"each donor is thought to be removed", "preflight reports an instance that cannot be removed, and only where removal is asked for",
		func(c *memory.Cloud, h *hooks) {
			h.preflight = func(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
				spec.Removes = true
				return c.Preflight(ctx, spec)
			}
		}},
}
