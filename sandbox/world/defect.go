package world

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// Spoil implements control.World.
func (w *World) Spoil(ctx context.Context, pool string, s control.Spoil) (string, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return "", err
	}
	id, err := w.versionOf(ctx, spec.Name, s.Version)
	if err != nil {
		return "", err
	}
	if id != "" {
		if err := w.fleet.Spoil(id, spec.In(w.directory.Cloud), s.Defect); err != nil {
			return "", err
		}
		return fmt.Sprintf("version %s of pool %s: %s, for machines built from now on", s.Version, spec.Name, s.Kind), nil
	}
	if err := w.fleet.SpoilNext(spec.In(w.directory.Cloud), s.Version, s.Defect); err != nil {
		return "", err
	}
	which := "the next version"
	if s.Version != "" {
		which = "version " + s.Version + ", once created,"
	}
	return fmt.Sprintf("%s of pool %s: %s", which, spec.Name, s.Kind), nil
}

// versionOf finds the disk of an existing version of a pool; empty if the version does not exist.
func (w *World) versionOf(ctx context.Context, pool, version string) (fleet.DiskID, error) {
	if version == "" {
		return "", nil
	}
	all, err := w.Versions(ctx, pool)
	if err != nil {
		return "", err
	}
	for _, v := range all {
		if v.Name == version {
			return v.Disk, nil
		}
	}
	return "", nil
}

// Outage implements control.World.
func (w *World) Outage(_ context.Context, o control.Outage) error {
	if err := w.fleet.Outage(o.What); err != nil || o.For <= 0 {
		return err
	}
	w.serving.Go(func() {
		if w.clock.Sleep(w.ctx, o.For) == nil {
			_ = w.fleet.Outage(kubelet.NoOutage)
		}
	})
	return nil
}
