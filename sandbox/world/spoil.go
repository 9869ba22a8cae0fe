package world

import (
	"context"
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// Spoil implements control.World.
func (w *World) Spoil(_ context.Context, pool string, s control.Spoil) (string, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return "", err
	}
	if id, found := w.versionOf(spec.ScaleSet(), s.Version); found {
		if err := w.fleet.Spoil(id, spec.ScaleSet(), s.Defect); err != nil {
			return "", err
		}
		return fmt.Sprintf("version %s of pool %s: %s, for machines that are built from now on", s.Version, spec.Name, s.Kind), nil
	}
	if err := w.fleet.SpoilNext(spec.ScaleSet(), s.Version, s.Defect); err != nil {
		return "", err
	}
	which := "the next version"
	if s.Version != "" {
		which = "version " + s.Version + ", once it is made,"
	}
	return fmt.Sprintf("%s of pool %s: %s", which, spec.Name, s.Kind), nil
}

// versionOf finds the disk of a pool's version that is there.
func (w *World) versionOf(scaleSet, version string) (fleet.DiskID, bool) {
	for _, id := range w.cloud.Versions() {
		if definition, name, _ := strings.Cut(strings.ToLower(id), "/versions/"); name == strings.ToLower(version) && strings.Contains(definition, strings.ToLower(scaleSet)) {
			return fleet.DiskID(strings.ToLower(id)), true
		}
	}
	return "", false
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
