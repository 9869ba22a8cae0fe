package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	apartAlone = "a trial apart builds an instance from the version and does not touch the pool"
	listsThem  = "the trials of a pool are listed until they have ended, each as it can be ended by"
)

var trialMutants = []mutant{
	{"a trial grows the pool", apartAlone, func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			size := c.World().Pools[0].Capacity
			_ = c.Scale(spec.Pool, size+1)
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"a trial apart points the pool at the version", apartAlone, func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if change, err := c.RecipeChange(ctx, spec.ImageRef, false); err == nil {
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
	{"each request builds an instance", "asked for again, a trial builds no second instance", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if have, err := c.Trial(ctx, spec); err == nil && have.State == cloud.Complete {
				spec.Name += "-again"
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"an end removes whatever is of the version", "ending a trial again removes nothing, even if its version is used by then", func(c *memory.Cloud, h *hooks) {
		h.endTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
			state, err := c.EndTrial(ctx, spec)
			for _, m := range c.World().Instances {
				if m.Pool == spec.Pool && m.BuiltFrom == spec.Version {
					c.RemoveInstance(m.ID)
				}
			}
			return state, err
		}
	}},
	{"trials are forgotten", listsThem, func(_ *memory.Cloud, h *hooks) {
		h.trials = func(context.Context, ...cloud.PoolID) ([]cloud.TrialSpec, error) { return nil, nil }
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
	{"the trials of every pool are listed", listsThem, func(c *memory.Cloud, h *hooks) {
		h.trials = func(ctx context.Context, _ ...cloud.PoolID) ([]cloud.TrialSpec, error) {
			return c.Trials(ctx, c.World().Pools[0].ID)
		}
	}},
	{"a version that is gone is tried", "a trial of a missing version is not found and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.ensureTrial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
			if image, err := c.Image(ctx, spec.ImageRef); err == nil && image.State == cloud.Absent && spec.Version != "" {
				c.AddVersion(spec.Pool, memory.VersionSpec{Version: spec.Version})
			}
			return c.EnsureTrial(ctx, spec)
		}
	}},
	{"nothing stands against a trial", "preflight of a trial reports each obstacle", func(_ *memory.Cloud, h *hooks) {
		h.preflightTrial = func(context.Context, cloud.TrialSpec) ([]cloud.Refusal, error) { return nil, nil }
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
	{"a look begins it", "a trial that was never begun is absent, and ending it changes nothing", func(c *memory.Cloud, h *hooks) {
		h.trial = func(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) { return c.EnsureTrial(ctx, spec) }
	}},
}
