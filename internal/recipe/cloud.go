package recipe

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Cloud has the calls of a cloud.Provider that change versions and recipes.
type Cloud interface {
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error)
	TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error
	AllowLaunches(ctx context.Context, ref cloud.ImageRef, allow bool) error
	DeleteImage(ctx context.Context, ref cloud.ImageRef) error
	RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error)
	RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error)
	SetRecipe(ctx context.Context, change cloud.RecipeChange) error
}

// Keeper has the calls of a cloud.Provider about what a capture would remove from the recipe.
type Keeper interface {
	restorer
	RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error)
	PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error)
	PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error)
}

type restorer interface {
	RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error)
}
