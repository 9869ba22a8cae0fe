package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

var censusMutants = []mutant{
	{"the census reads the first page only", "a census shows each instance once, as a look at it does", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			return list[:min(1, len(list))], err
		}
	}},
	{"the census reads a page twice", "a census shows each instance once, as a look at it does", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			return append(list, list...), err
		}
	}},
	{"the census reads no image", "a census shows each instance once, as a look at it does", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			for i := range list {
				list[i].Image = ""
			}
			return list, err
		}
	}},
	{"the census takes the recipe's version for everybody's", "a census shows which version an instance was built from", func(c *memory.Cloud, h *hooks) {
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
	{"the census of no pool is empty", "a census of no pool is not found", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			if cloud.Is(err, cloud.NotFound) {
				err = nil
			}
			return list, err
		}
	}},
	{"the census stops what it counts", "a census changes nothing", func(c *memory.Cloud, h *hooks) {
		h.instances = func(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
			list, err := c.Instances(ctx, pool)
			for _, m := range list {
				_, _ = c.EnsureStopped(ctx, m.ID)
			}
			return list, err
		}
	}},
}
