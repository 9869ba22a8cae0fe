package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var rebuildMutants = []mutant{
	{"a provider that cannot rebuild claims to have done so", "a provider that cannot rebuild says so, and changes nothing", func(_ *memory.Cloud, h *hooks) {
		h.cannotRebuild = true
		h.ensureRebuilt = func(context.Context, cloud.InstanceID, string) (cloud.Rebuild, error) {
			return cloud.Rebuild{State: cloud.Complete}, nil
		}
	}},
	{"a rebuild is complete when it begins", "EnsureRebuilt is repeated until complete, and the instance runs what the version holds",
		func(c *memory.Cloud, h *hooks) {
			h.ensureRebuilt = func(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
				have, err := c.EnsureRebuilt(ctx, id, version)
				if err == nil {
					have.State = cloud.Complete
				}
				return have, err
			}
		}},
	{"all instances of the pool are rebuilt", "EnsureRebuilt is repeated until complete, and the instance runs what the version holds",
		func(c *memory.Cloud, h *hooks) {
			h.ensureRebuilt = func(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
				if pool, err := c.PoolOf(id); err == nil {
					for _, other := range c.InstanceIDs(pool) {
						_, _ = c.EnsureRebuilt(ctx, other, version)
					}
				}
				return c.EnsureRebuilt(ctx, id, version)
			}
		}},
	{"each call rebuilds", "rebuilding an instance of the version does nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureRebuilt = func(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
			have, err := c.EnsureRebuilt(ctx, id, version)
			if have.State == cloud.Complete {
				c.Reboot(id)
			}
			return have, err
		}
	}},
	{"whatever the recipe names is good enough", "rebuilding from a version that the recipe does not name is a conflict and changes nothing",
		func(c *memory.Cloud, h *hooks) {
			h.ensureRebuilt = func(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
				have, err := c.EnsureRebuilt(ctx, id, version)
				if cloud.Is(err, cloud.Conflict) {
					c.Reboot(id)
					return cloud.Rebuild{State: cloud.Pending}, nil
				}
				return have, err
			}
		}},
	{"an instance that is gone is rebuilt", "rebuilding a missing instance is not found", func(c *memory.Cloud, h *hooks) {
		h.ensureRebuilt = func(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
			have, err := c.EnsureRebuilt(ctx, id, version)
			if cloud.Is(err, cloud.NotFound) {
				return cloud.Rebuild{State: cloud.Complete}, nil
			}
			return have, err
		}
	}},
}
