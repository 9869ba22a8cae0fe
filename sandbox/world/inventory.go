package world

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/region"
)

// Snapshots are the names of those that are no image's.
func (w *World) Snapshots(ctx context.Context) ([]string, error) { return w.cloud.Snapshots(ctx) }

// Instances of a pool, by the IDs that its machines have.
func (w *World) Instances(ctx context.Context, pool string) ([]string, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Instances(ctx, spec)
}

// Held are the instances of a pool that it may not take away.
func (w *World) Held(ctx context.Context, pool string) ([]string, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Held(ctx, spec)
}

// Versions of the images that a pool's captures published, in no order: none for a pool that was never captured.
func (w *World) Versions(ctx context.Context, pool string) ([]region.Version, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Versions(ctx, spec)
}

// VersionOf tells which version of a pool an image is, as the cloud names it for a machine or a recipe; empty if it is none.
func (w *World) VersionOf(ctx context.Context, pool, image string) (string, error) {
	all, err := w.Versions(ctx, pool)
	for _, v := range all {
		if strings.EqualFold(v.ID, image) {
			return v.Name, nil
		}
	}
	return "", err
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
