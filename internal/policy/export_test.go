package policy

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Count counts the images of a pool, as a list of the instances does.
func (d *Decider) Count(ctx context.Context, pool cloud.PoolID) error { return d.count(ctx, pool) }
