package cloudtest_test

import (
	"bytes"
	"context"
	"errors"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// restoring replaces SetRecipe only for changes of RestoreChange.
func restoring(c *memory.Cloud, do func(context.Context, cloud.RecipeChange) error) func(context.Context, cloud.RecipeChange) error {
	return func(ctx context.Context, change cloud.RecipeChange) error {
		if change.Restores == nil {
			return c.SetRecipe(ctx, change)
		}
		return do(ctx, change)
	}
}

var restoreMutants = []mutant{
	{"a look at a restoration carries it out", "RestoreChange shows what comes back, and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.restoreChange = func(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
			change, err := c.RestoreChange(ctx, id, saved)
			return change, errors.Join(err, c.SetRecipe(ctx, change))
		}
	}},
	{"the image alone is shown", "RestoreChange shows what comes back, and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.restoreChange = func(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
			change, err := c.RestoreChange(ctx, id, saved)
			change.Adds = nil
			return change, err
		}
	}},
	{"the image comes back alone", "SetRecipe gives a recipe back what it lost, and may be repeated", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = restoring(c, func(_ context.Context, change cloud.RecipeChange) error {
			c.ChangeRecipe(change.Pool, change.To)
			return nil
		})
	}},
	{"each restoration adds", "SetRecipe gives a recipe back what it lost, and may be repeated", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = restoring(c, func(ctx context.Context, change cloud.RecipeChange) error {
			p, err := c.Pool(ctx, change.Pool)
			if err != nil {
				return err
			}
			names := p.Recipe.Bootstrap
			for _, part := range change.Adds {
				names = append(names, part.String())
			}
			c.ChangeRecipe(change.Pool, change.To, names...)
			return nil
		})
	}},
	{"a missing part is invented", "an unsaved part is missing until the user passes it", func(c *memory.Cloud, h *hooks) {
		h.restoreChange = func(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
			saved.Given = map[string][]byte{"customData": nil}
			return c.RestoreChange(ctx, id, saved)
		}
	}},
	{"any pool's backup will do", "a part of another pool, or an unsaved part, is invalid", func(c *memory.Cloud, h *hooks) {
		h.restoreChange = func(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
			saved.Backup = bytes.ReplaceAll(saved.Backup, []byte(id+"x"), []byte(id))
			return c.RestoreChange(ctx, id, saved)
		}
	}},
	{"the last restoration wins", "a restoration made from another recipe is a conflict", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = restoring(c, func(ctx context.Context, change cloud.RecipeChange) error {
			fresh, err := c.RestoreChange(ctx, change.Pool, *change.Restores)
			if err != nil {
				return err
			}
			return c.SetRecipe(ctx, fresh)
		})
	}},
	{"a restoration rolls out", "a pool that would roll a restored recipe out is refused", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = restoring(c, func(ctx context.Context, change cloud.RecipeChange) error {
			err := c.SetRecipe(ctx, change)
			if cloud.Is(err, cloud.Refused) {
				c.ChangeRecipe(change.Pool, change.To)
				return nil
			}
			return err
		})
	}},
	{"a restoration reboots", "running instances are not changed by a restored recipe", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = restoring(c, func(ctx context.Context, change cloud.RecipeChange) error {
			for _, id := range c.InstanceIDs(change.Pool) {
				c.Reboot(id)
			}
			return c.SetRecipe(ctx, change)
		})
	}},
}
