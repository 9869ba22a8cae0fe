package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var instanceListerMutants = []mutant{
	{"the list has the first page only", "the list shows each instance once, as a look does", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			return list[:min(1, len(list))], err
		}
	}},
	{"the list has a page twice", "the list shows each instance once, as a look does", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			return append(list, list...), err
		}
	}},
	{"the list has no image", "the list shows each instance once, as a look does", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			for i := range list {
				list[i].Image = ""
			}
			return list, err
		}
	}},
	{"the list gives all instances the recipe's version", "the list shows the version of each instance", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			if p, look := c.Pool(ctx, pool); look == nil {
				for i := range list {
					list[i].BuiltFrom = p.Recipe.Version
				}
			}
			return list, err
		}
	}},
	{"the list of a missing pool is empty", "the list of a missing pool is not found", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			if cloud.Is(err, cloud.NotFound) {
				err = nil
			}
			return list, err
		}
	}},
	{"the list stops instances", "listing instances changes nothing", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			for _, m := range list {
				_, _ = c.EnsureStopped(ctx, m.ID)
			}
			return list, err
		}
	}},
}
