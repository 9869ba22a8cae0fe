package policy

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
)

// Count counts the images of a pool, as a list of the instances does.
func (d *Decider) Count(ctx context.Context, pool cloud.PoolID) error {
	_, err := d.PoolCache.Instances(ctx, pool, 0)
	return err
}

// Counted sets the number of a pool's images.
func (l *PoolCache) Counted(pool cloud.PoolID, counted imagecount.Count) {
	l.entry(pool).ImageCount = counted
}
