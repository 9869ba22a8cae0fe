package cloudtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var recipeMutants = []mutant{
	{"publishing promotes", "a version is unused until the recipe names the version", func(c *memory.Cloud, h *hooks) {
		h.ensureImage = func(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
			v, err := c.EnsureImage(ctx, spec)
			if v.State == cloud.Complete {
				c.ChangeRecipe(spec.Pool, v.ID)
			}
			return v, err
		}
	}},
	{"every pool is refused", "preflight finds nothing in a pool that can be captured", func(_ *memory.Cloud, h *hooks) {
		h.preflight = func(context.Context, cloud.PreflightSpec) ([]cloud.Refusal, error) {
			return []cloud.Refusal{{Reason: "Tired", Message: "come back tomorrow"}}, nil
		}
	}},
	{"nothing is refused", "preflight reports a version that exists", func(_ *memory.Cloud, h *hooks) {
		h.preflight = func(context.Context, cloud.PreflightSpec) ([]cloud.Refusal, error) { return nil, nil }
	}},
	{"a refusal without a message", "preflight reports a version that exists", func(c *memory.Cloud, h *hooks) {
		h.preflight = func(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
			list, err := c.Preflight(ctx, spec)
			for i := range list {
				list[i].Message = ""
			}
			return list, err
		}
	}},
	{"the pool's capacity is not read", "a pool shows itself and its recipe", func(c *memory.Cloud, h *hooks) {
		h.pool = func(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
			p, err := c.Pool(ctx, id)
			p.Capacity = 0
			return p, err
		}
	}},
	{"a pool is written as its instance is", "a node names its pool", eachMember(func(node cloud.NodeValues, of cloud.Membership) cloud.Membership {
		if of.Pool != "" {
			of.Pool = cloud.PoolID(node.ProviderID[:len(of.Pool)])
		}
		return of
	})},
	{"any node has a pool", "a node of no known pool belongs to none, with a sentence",
		eachMember(func(_ cloud.NodeValues, of cloud.Membership) cloud.Membership {
			if of.Pool == "" {
				return cloud.Membership{Pool: "memory:///pools/default"}
			}
			return of
		})},
	{"a stranger without a sentence", "a node of no known pool belongs to none, with a sentence",
		eachMember(func(_ cloud.NodeValues, of cloud.Membership) cloud.Membership {
			of.Why = ""
			return of
		})},
	{"strangers are left out", "nodes come in their order, strangers between them and each as often as it is asked", func(c *memory.Cloud, h *hooks) {
		h.poolsOf = func(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
			found, err := c.PoolsOf(ctx, nodes)
			if len(nodes) == 1 {
				return found, err
			}
			return slices.DeleteFunc(found, func(of cloud.Membership) bool { return of.Pool == "" }), err
		}
	}},
	{"an answer in an order of its own", "nodes come in their order, strangers between them and each as often as it is asked", func(c *memory.Cloud, h *hooks) {
		h.poolsOf = func(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
			found, err := c.PoolsOf(ctx, nodes)
			slices.SortFunc(found, func(a, b cloud.Membership) int { return strings.Compare(string(a.Pool), string(b.Pool)) })
			return found, err
		}
	}},
	{"only the first fifty are asked about", "nodes come in their order, strangers between them and each as often as it is asked",
		func(c *memory.Cloud, h *hooks) {
			h.poolsOf = func(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
				return c.PoolsOf(ctx, nodes[:min(len(nodes), 50)])
			}
		}},
	{"no node is an error", "no nodes have no pools, and that is no error", func(c *memory.Cloud, h *hooks) {
		h.poolsOf = func(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
			if len(nodes) == 0 {
				return nil, notFound("find the pools of nodes")
			}
			return c.PoolsOf(ctx, nodes)
		}
	}},
	{"no look ahead", "RecipeChange shows a version that does not exist yet", func(c *memory.Cloud, h *hooks) {
		h.recipeChange = func(ctx context.Context, ref cloud.ImageRef, remove bool) (cloud.RecipeChange, error) {
			if v, err := c.Image(ctx, ref); err == nil && v.State == cloud.Absent {
				return cloud.RecipeChange{}, notFound("look at recipe")
			}
			return c.RecipeChange(ctx, ref, remove)
		}
	}},
	{"a look at a change carries it out", "RecipeChange shows what is, what will be, and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.recipeChange = func(ctx context.Context, ref cloud.ImageRef, remove bool) (cloud.RecipeChange, error) {
			change, err := c.RecipeChange(ctx, ref, remove)
			if v, lookErr := c.Image(ctx, ref); lookErr == nil && v.State == cloud.Complete {
				err = errors.Join(err, c.SetRecipe(ctx, change))
			}
			return change, err
		}
	}},
	{"a change is never done", "SetRecipe pins the recipe to the version, and may be repeated", func(c *memory.Cloud, h *hooks) {
		h.recipeChange = func(ctx context.Context, ref cloud.ImageRef, remove bool) (cloud.RecipeChange, error) {
			change, err := c.RecipeChange(ctx, ref, remove)
			change.Done = false
			return change, err
		}
	}},
	{"a repeated change is a conflict", "SetRecipe pins the recipe to the version, and may be repeated", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			if p, err := c.Pool(ctx, change.Pool); err == nil && p.Recipe.Image != change.From {
				return &cloud.Error{Kind: cloud.Conflict, Op: "set recipe"}
			}
			return c.SetRecipe(ctx, change)
		}
	}},
	{"the bootstrap always goes", "SetRecipe without removal keeps the bootstrap", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			err := c.SetRecipe(ctx, change)
			if p, lookErr := c.Pool(ctx, change.Pool); err == nil && lookErr == nil {
				c.ChangeRecipe(change.Pool, p.Recipe.Image)
			}
			return err
		}
	}},
	{"the bootstrap always stays", "SetRecipe with removal takes the bootstrap and keeps the rest", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			change.Keeps, change.Removes, change.Backup = append(change.Keeps, change.Removes...), nil, nil
			return c.SetRecipe(ctx, change)
		}
	}},
	{"the right image is all that counts", "the bootstrap can be removed after the image was set", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			if p, err := c.Pool(ctx, change.Pool); err == nil && p.Recipe.Image == change.To {
				return nil
			}
			return c.SetRecipe(ctx, change)
		}
	}},
	{"a change needs its backup", "a change is carried out after it was saved and read again", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			if change.Backup == nil && !change.Done {
				return &cloud.Error{Kind: cloud.Invalid, Op: "set recipe"}
			}
			return c.SetRecipe(ctx, change)
		}
	}},
	{"the last change wins", "a change made from another recipe is a conflict", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			fresh, err := c.RecipeChange(ctx, cloud.ImageRef{Pool: change.Pool, Version: change.Version}, len(change.Removes) > 0)
			if err != nil {
				return err
			}
			return c.SetRecipe(ctx, fresh)
		}
	}},
	{"only newer versions", "rolling back is the same write", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			p, err := c.Pool(ctx, change.Pool)
			if err == nil && strings.Compare(p.Recipe.Version, change.Version) > 0 {
				return nil
			}
			return c.SetRecipe(ctx, change)
		}
	}},
	{"a recipe may name nothing", "SetRecipe to an absent version is refused and changes nothing", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			err := c.SetRecipe(ctx, change)
			if cloud.Is(err, cloud.NotFound) {
				c.ChangeRecipe(change.Pool, change.To)
				return nil
			}
			return err
		}
	}},
	{"a promotion rolls out", "running instances are not changed by SetRecipe", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			err := c.SetRecipe(ctx, change)
			for _, id := range c.InstanceIDs(change.Pool) {
				c.Reboot(id)
			}
			return err
		}
	}},
	{"the image of an instance is unknown", "new instances are built from the version that the recipe names", func(c *memory.Cloud, h *hooks) {
		h.instance = func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
			m, err := c.Instance(ctx, id)
			m.BuiltFrom, m.Image = "", ""
			return m, err
		}
	}},
	{"all instances claim to be of today's version", "new instances are built from the version that the recipe names", func(c *memory.Cloud, h *hooks) {
		h.instance = func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
			m, err := c.Instance(ctx, id)
			if p, lookErr := c.Pool(ctx, m.Pool); err == nil && lookErr == nil {
				m.BuiltFrom = p.Recipe.Version
			}
			return m, err
		}
	}},
}

// eachMember changes the membership of each node.
func eachMember(change func(cloud.NodeValues, cloud.Membership) cloud.Membership) func(*memory.Cloud, *hooks) {
	return func(c *memory.Cloud, h *hooks) {
		h.poolsOf = func(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
			found, err := c.PoolsOf(ctx, nodes)
			for i := range found {
				found[i] = change(nodes[i], found[i])
			}
			return found, err
		}
	}
}
