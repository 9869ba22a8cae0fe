package world

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/region"
)

// Snapshots are the names of all snapshots without an image.
func (w *World) Snapshots(ctx context.Context) ([]string, error) { return w.cloud.Snapshots(ctx) }

// Instances of a pool, by the IDs of their machines.
func (w *World) Instances(ctx context.Context, pool string) ([]string, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Instances(ctx, spec)
}

// Protected are the instances that a pool must not remove.
func (w *World) Protected(ctx context.Context, pool string) ([]string, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Protected(ctx, spec)
}

// Versions that captures of a pool published, in no order; none for a pool without a capture.
func (w *World) Versions(ctx context.Context, pool string) ([]region.Version, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	return w.cloud.Versions(ctx, spec)
}

// VersionOf returns the version of a pool with this image, as machines and recipes name images; empty if none fits.
func (w *World) VersionOf(ctx context.Context, pool, image string) (string, error) {
	all, err := w.Versions(ctx, pool)
	for _, v := range all {
		if strings.EqualFold(v.ID, image) {
			return v.Name, nil
		}
	}
	return "", err
}

// Remove deletes a node's instance from its pool, as an autoscaler removes an idle node, and returns when the
// instance is gone.
func (w *World) Remove(ctx context.Context, node string) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	return w.cloud.Remove(ctx, m)
}
