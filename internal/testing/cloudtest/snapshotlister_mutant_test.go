package cloudtest_test

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var snapshotListerMutants = []mutant{
	{"the list asks each place again", "the list shows each owned snapshot once, by the Prototype's name", func(c *memory.Cloud, h *hooks) {
		h.snapshots = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
			var all []cloud.Snapshot
			for range pools {
				list, err := c.Snapshots(ctx, pools...)
				if err != nil {
					return nil, err
				}
				all = append(all, list...)
			}
			return all, nil
		}
	}},
	{"the list shows a foreign snapshot", "the list does not show a snapshot without an owner", func(c *memory.Cloud, h *hooks) {
		h.snapshots = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
			list, err := c.Snapshots(ctx, pools...)
			return append(list, cloud.Snapshot{Name: "another-owner", State: cloud.Complete}), err
		}
	}},
	{"the list loses the cluster", "of two clusters in an account, each knows its own snapshots, versions and trials", func(c *memory.Cloud, h *hooks) {
		h.snapshots = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
			list, err := c.Snapshots(ctx, pools...)
			for _, s := range list {
				delete(s.Tags, cloud.TagCluster)
			}
			return list, err
		}
	}},
	{"listing deletes", "listing snapshots changes nothing", func(c *memory.Cloud, h *hooks) {
		h.snapshots = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
			list, err := c.Snapshots(ctx, pools...)
			for _, s := range list {
				_ = c.DropSnapshot(ctx, s.ID)
			}
			return list, err
		}
	}},
	{"a drop takes all", "a deleted snapshot leaves the list, and no other snapshot does", func(c *memory.Cloud, h *hooks) {
		h.dropSnapshot = func(ctx context.Context, _ string) error {
			list, err := c.Snapshots(ctx)
			for _, s := range list {
				_ = c.DropSnapshot(ctx, s.ID)
			}
			return err
		}
	}},
	{"a drop of nothing is an error", "dropping no snapshot is nil", func(c *memory.Cloud, h *hooks) {
		h.dropSnapshot = func(ctx context.Context, id string) error {
			if strings.HasSuffix(id, "-not") {
				return notFound("drop")
			}
			return c.DropSnapshot(ctx, id)
		}
	}},
	{"the list forgets a pool", "the pool list shows each pool once, with the ID from the instances", func(_ *memory.Cloud, h *hooks) {
		h.otherPools = func(context.Context, ...cloud.PoolID) ([]cloud.PoolID, error) { return nil, nil }
	}},
	{"the list stops a machine", "listing pools changes nothing", func(c *memory.Cloud, h *hooks) {
		h.otherPools = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
			for _, m := range c.InstanceIDs(pools[0]) {
				_, _ = c.EnsureStopped(ctx, m)
			}
			return c.PoolsInScope(ctx, pools...)
		}
	}},
	{"every text is a pool's ID", "a pool's ID is read in any case, and no other text is an ID", func(_ *memory.Cloud, h *hooks) {
		h.readPool = func(text string) (cloud.PoolID, bool) { return cloud.PoolID(strings.ToLower(text)), true }
	}},
}
