package cloudtest_test

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

const (
	apartAlone = "a trial apart builds an instance from the version and does not touch the pool"
	poolOpens  = "a trial in the pool opens its recipe and grows it by an instance of the version"
	listsThem  = "the trials of a pool are listed until they have ended, each as it can be ended by"
	endsItsOwn = "ending a trial in the pool removes its instances with their places, and what grew meanwhile stays"
)

var trialMutants = []mutant{
	{"a trial apart is in the pool", apartAlone, func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if !spec.InPool {
				spec.InPool, spec.RemoveBootstrap = true, false
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"a trial apart points the pool at the version", apartAlone, func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if change, err := c.RecipeChange(ctx, spec.ImageRef, false); err == nil && !spec.InPool {
				_ = c.SetRecipe(ctx, change)
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"the instance of a trial is a pool's", "the instance of a trial apart belongs to no pool", func(c *memory.Cloud, h *hooks) {
		h.poolsOf = func(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
			found, err := c.PoolsOf(ctx, nodes)
			for i := range found {
				if found[i].Pool == "" && nodes[i].ProviderID != "" {
					found[i] = cloud.Membership{Pool: c.World().Pools[0].ID}
				}
			}
			return found, err
		}
	}},
	{"a trial in the pool is not shown as open", poolOpens, func(c *memory.Cloud, h *hooks) {
		h.trial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			have, err := c.Trial(ctx, spec)
			have.Open = false
			return have, err
		}
	}},
	{"a trial in the pool grows it by two", poolOpens, func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			have, err := c.EnsureTrial(ctx, spec)
			if spec.InPool && err == nil && c.World().Pools[0].Capacity == spec.Capacity+1 {
				_ = c.SetCapacity(ctx, spec.Pool, spec.Capacity+1, spec.Capacity+2)
			}
			return have, err
		}
	}},
	{"an instance that is gone is built again", "asked for again, a trial builds no second instance, whatever became of the first", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if have, err := c.Trial(ctx, spec); err == nil && have.State == cloud.Failed && len(have.Instances) == 0 {
				_, _ = c.EndTrial(ctx, spec)
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"the recipe is overwritten", "a trial in a pool that is not as its spec says is a conflict and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if pool, err := c.Pool(ctx, spec.Pool); err == nil && spec.InPool && pool.Capacity == spec.Capacity {
				spec.Image = pool.Recipe.Image
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"the size is overwritten", "a trial in a pool that is not as its spec says is a conflict and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if pool, err := c.Pool(ctx, spec.Pool); err == nil && spec.InPool && pool.Recipe.Image == spec.Image {
				spec.Capacity = pool.Capacity
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"a trial ends another one", "a second trial in one pool is a conflict and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			for _, t := range c.World().Trials {
				if t.InPool && spec.InPool {
					spec.Name = t.Name
				}
			}
			return c.EndTrial(ctx, spec)
		}
	}},
	{"nothing is closed", "closing a trial gives the recipe its image back and leaves its instances", func(_ *memory.Cloud, h *hooks) {
		h.closeTrial = func(context.Context, cloud.TrialSpec) error { return nil }
	}},
	{"closing ends", "closing a trial gives the recipe its image back and leaves its instances", func(c *memory.Cloud, h *hooks) {
		h.closeTrial = func(ctx context.Context, spec cloud.TrialSpec) error {
			_, err := c.EndTrial(ctx, spec)
			return err
		}
	}},
	{"closing overwrites", "closing a trial leaves what somebody else has changed", func(c *memory.Cloud, h *hooks) {
		h.closeTrial = func(ctx context.Context, spec cloud.TrialSpec) error {
			if err := c.CloseTrial(ctx, spec); err != nil || !spec.InPool || len(c.World().Trials) == 0 {
				return err
			}
			c.ChangeRecipe(spec.Pool, spec.Image, c.World().Pools[0].Recipe.Bootstrap...)
			return nil
		}
	}},
	{"any trial closes", "closing a trial leaves what somebody else has changed", func(c *memory.Cloud, h *hooks) {
		h.closeTrial = func(ctx context.Context, spec cloud.TrialSpec) error {
			for _, t := range c.World().Trials {
				spec.Name = t.Name
			}
			return c.CloseTrial(ctx, spec)
		}
	}},
	{"what is ended stays open", "ending a trial that is open closes it", func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			before := c.World().Pools[0].Recipe
			state, err := c.EndTrial(ctx, spec)
			if now := c.World().Pools[0].Recipe; now.Image != before.Image {
				c.ChangeRecipe(spec.Pool, before.Image, before.Bootstrap...)
			}
			return state, err
		}
	}},
	{"the places stay", endsItsOwn, func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			before := c.World().Pools[0].Capacity
			state, err := c.EndTrial(ctx, spec)
			if now := c.World().Pools[0].Capacity; now < before {
				_ = c.SetCapacity(ctx, spec.Pool, now, before)
			}
			return state, err
		}
	}},
	{"the pool is as large as before", endsItsOwn, func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			state, err := c.EndTrial(ctx, spec)
			for err == nil && spec.InPool && spec.Capacity > 0 && c.World().Pools[0].Capacity > spec.Capacity {
				if c.ScaleIn(spec.Pool) == "" {
					break
				}
			}
			return state, err
		}
	}},
	{"an end removes whatever is of the version", "ending a trial again removes nothing, even if its version is used by then", func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			state, err := c.EndTrial(ctx, spec)
			for _, m := range c.World().Instances {
				if m.Pool == spec.Pool && m.BuiltFrom == spec.Version && spec.InPool {
					_, _ = c.EnsureRemoved(ctx, m.ID)
				}
			}
			return state, err
		}
	}},
	{"what is promoted goes", "what was promoted while a trial was closed stays", func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			for _, t := range c.World().Trials {
				for _, id := range t.Instances {
					_, _ = c.EnsureRemoved(ctx, id)
				}
			}
			return c.EndTrial(ctx, spec)
		}
	}},
	{"trials are forgotten", listsThem, func(_ *memory.Cloud, h *hooks) {
		h.trials = func(context.Context, ...cloud.PoolID) ([]cloud.TrialSpec, error) { return nil, nil }
	}},
	{"what is closed is not listed", listsThem, func(c *memory.Cloud, h *hooks) {
		h.trials = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
			list, err := c.Trials(ctx, pools...)
			return slices.DeleteFunc(list, func(spec cloud.TrialSpec) bool {
				have, _ := c.Trial(ctx, spec)
				return spec.InPool && !have.Open
			}), err
		}
	}},
	{"a trial is listed without its owner", listsThem, func(c *memory.Cloud, h *hooks) {
		h.trials = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
			list, err := c.Trials(ctx, pools...)
			for i := range list {
				list[i].Tags = nil
			}
			return list, err
		}
	}},
	{"a trial is listed without what the recipe named", listsThem, func(c *memory.Cloud, h *hooks) {
		h.trials = func(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
			list, err := c.Trials(ctx, pools...)
			for i := range list {
				list[i].Image = ""
			}
			return list, err
		}
	}},
	{"the trials of every pool are listed", listsThem, func(c *memory.Cloud, h *hooks) {
		h.trials = func(ctx context.Context, _ ...cloud.PoolID) ([]cloud.TrialSpec, error) {
			return c.Trials(ctx, c.World().Pools[0].ID)
		}
	}},
	{"a version that is gone is tried", "a trial of a version that does not exist is not found and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if image, err := c.Image(ctx, spec.ImageRef); err == nil && image.State == cloud.Absent && spec.Version != "" {
				c.AddVersion(spec.Pool, memory.VersionSpec{Version: spec.Version})
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"nothing stands against a trial", "preflight of a trial tells of what stands against it", func(_ *memory.Cloud, h *hooks) {
		h.preflightTrial = func(context.Context, cloud.TrialSpec) ([]cloud.Refusal, error) { return nil, nil }
	}},
	{"each trial is thought of in the pool", "preflight of a trial tells of what stands against it", func(c *memory.Cloud, h *hooks) {
		h.preflightTrial = func(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
			spec.InPool = true
			return c.PreflightTrial(ctx, spec)
		}
	}},
	{"what has no room is a conflict", "a trial for which there is no room says so and leaves nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			have, err := c.EnsureTrial(ctx, spec)
			if cloud.Is(err, cloud.QuotaExceeded) {
				err = &cloud.Error{Kind: cloud.Conflict, Op: "begin the trial of", Message: "no"}
			}
			return have, err
		}
	}},
	{"a trial rolls out", "a trial in the pool is refused where it would change running instances", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			c.SetUpgrades(spec.Pool, false)
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"a look begins it", "a trial that was never begun is absent, and closing or ending it changes nothing", func(c *memory.Cloud, h *hooks) {
		h.trial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) { return c.EnsureTrial(ctx, spec) }
	}},
}
