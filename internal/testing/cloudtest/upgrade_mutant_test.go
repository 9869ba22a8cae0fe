package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const wouldRoll = "a pool that would roll a new recipe out is refused, whenever that was set"

var upgradeMutants = []mutant{
	{"only a look reports the policy", wouldRoll, func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			p, err := c.Pool(ctx, change.Pool)
			if err == nil && len(p.Refusals) > 0 {
				c.SetUpgrades(change.Pool, false)
				defer c.SetUpgrades(change.Pool, true)
			}
			return c.SetRecipe(ctx, change)
		}
	}},
	{"a policy that would roll is a conflict", wouldRoll, func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			err := c.SetRecipe(ctx, change)
			if cloud.Is(err, cloud.Refused) {
				return &cloud.Error{Kind: cloud.Conflict, Op: "set recipe"}
			}
			return err
		}
	}},
	{"only the write reports the policy", wouldRoll, func(c *memory.Cloud, h *hooks) {
		h.recipeChange = func(ctx context.Context, ref cloud.ImageRef, remove bool) (cloud.RecipeChange, error) {
			change, err := c.RecipeChange(ctx, ref, remove)
			change.Refusals = nil
			return change, err
		}
	}},
}
