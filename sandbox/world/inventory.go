package world

import (
	"context"

	"github.com/kamino-dev/kamino/sandbox/region"
)

// Snapshots are the names of those that are no image's.
func (w *World) Snapshots(ctx context.Context) ([]string, error) { return w.cloud.Snapshots(ctx) }

// Versions of the images that a pool's captures published, in no order: none for a pool that was never captured.
func (w *World) Versions(ctx context.Context, pool string) ([]region.Version, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Versions(ctx, spec)
}

// Remove takes a node's instance out of its pool for good, as an autoscaler does that finds it idle, and returns
// when it is gone.
func (w *World) Remove(ctx context.Context, node string) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	return w.cloud.Remove(ctx, m)
}
