package savedrecipe

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Tries is how often a restoration is looked at and written: an autoscaler that changes the pool's size at the same
// moment is a conflict too.
const Tries = 4

// Try writes a change of a Restorer once. In a conflict it looks again: what it gives back is then the same change as
// of now, to be tried again in a while; or, if somebody changed what was shown, the Conflict.
func Try(ctx context.Context, provider cloud.Provider, change cloud.RecipeChange) (next *cloud.RecipeChange, err error) {
	err = provider.SetRecipe(ctx, change)
	restorer, able := cloud.As[cloud.Restorer](provider)
	if err == nil || !cloud.Is(err, cloud.Conflict) || !able || change.Restores == nil {
		return nil, err
	}
	fresh, look := restorer.RestoreChange(ctx, change.Pool, *change.Restores)
	switch {
	case look != nil:
		return nil, look
	case fresh.Done:
		return nil, nil
	case !strings.EqualFold(fresh.From, change.From) || !cloud.SameParts(fresh.Keeps, change.Keeps) || !cloud.SameParts(fresh.Adds, change.Adds):
		return nil, err
	}
	return &fresh, nil
}
