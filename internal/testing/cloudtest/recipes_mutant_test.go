package cloudtest_test

import (
	"context"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// notOfRecipes lists the mutants with mistakes of disks: versions and instances.
var notOfRecipes = []string{
	"publishing promotes", "nothing is refused", "a refusal without a message", "a start removes the protection", "what is held stays",
	"its snapshots go with it",
	"the image of an instance is unknown", "all instances claim to be of today's version", "a version that is gone is tried",
	"its copy goes with a workshop", "a provider denies its workshops", "a workshop is built without an end",
}

// hookedRecipes is the recipes of a provider with replaced calls.
type hookedRecipes struct {
	hooks
	recipes cloud.PoolProvider
}

func (h hookedRecipes) Family(ctx context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	return h.recipes.Family(ctx, id)
}

func (h hookedRecipes) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	if h.preflight == nil {
		return h.recipes.PreflightRecipe(ctx, spec)
	}
	return h.preflight(ctx, spec)
}

func (h hookedRecipes) RecipeChange(ctx context.Context, to cloud.Target, removeBootstrap bool) (cloud.RecipeChange, error) {
	return h.hooks.RecipeChange(ctx, cloud.ImageRef{Pool: to.Pool, Version: to.Version}, removeBootstrap)
}

// TestRecipesMutant runs the suite for PoolProvider on one mutant. Without the variable, the test is skipped.
func TestRecipesMutant(t *testing.T) {
	mutate := mutation(t)
	cloudtest.RunRecipes(t, func(t *testing.T) cloudtest.RecipesHarness {
		harness, c := mutated(mutate)
		mutant := harness.Provider.Versions.(hooks)
		harness.Provider = cloud.Provider{}
		family, err := c.Recipes().Family(t.Context(), harness.Pool)
		if err != nil {
			t.Fatal(err)
		}
		disks := c.Disks()
		return cloudtest.RecipesHarness{
			Harness: harness, Recipes: cloud.RecipesOf(hookedRecipes{mutant, c.Recipes()}), Look: disks.Instance,
			ImageID: func(version string) string {
				return disks.ImageID(cloud.FamilyVersion{Family: family, Version: version})
			},
			Publish: func(_ testing.TB, versions ...string) {
				for _, version := range versions {
					c.AddVersion(harness.Pool, memory.VersionSpec{Version: version})
				}
			},
		}
	})
}
