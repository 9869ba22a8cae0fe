package policy

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// forbidAgain is the pause after the cloud refused to forbid launches, for example for lack of a permission.
const forbidAgain = time.Hour

// forbidLaunches lets the cloud refuse launches of quarantined versions: a version may have been quarantined while it was made, or
// while the recipe named it, or before an upgrade. It needs no request where nothing is to be done.
func (d *joinTracker) forbidLaunches(ctx context.Context, w *observed) {
	for _, pool := range w.pools {
		if d.Policies != nil || ctx.Err() != nil || launchable(d.PoolCache.Last(pool.ID)) == "" || d.forbidAfter[pool.ID].After(w.now) {
			continue
		}
		// A person may have released the version since the look.
		look, err := d.PoolCache.At(ctx, pool.ID, stepInterval)
		version := launchable(look)
		if err == nil && version == "" {
			continue
		}
		if err == nil {
			err = d.Cloud.AllowLaunches(ctx, cloud.ImageRef{Pool: pool.ID, Version: version}, false)
			d.PoolCache.Forget(pool.ID)
		}
		if err == nil {
			d.Log.Info("the cloud launches a quarantined version no longer", "pool", pool.Name, "version", version)
			continue
		}
		d.Log.Info("launches of a quarantined version are not forbidden", "pool", pool.Name, "version", version, "why", err.Error())
		if d.forbidAfter == nil {
			d.forbidAfter = map[cloud.PoolID]time.Time{}
		}
		d.forbidAfter[pool.ID] = w.now.Add(max(forbidAgain, cloud.RetryAfter(err)))
	}
}

// launchable returns a quarantined version of this cluster that the cloud launches, and the recipe does not name; empty if there is none.
func launchable(look PoolLook) string {
	for _, image := range look.Images {
		named := look.Pool.Recipe.Version != "" && imageversion.Compare(image.Version, look.Pool.Recipe.Version) == 0
		if image.Tags[cloud.TagQuarantined] != "" && image.Launches == cloud.LaunchesAllowed && image.Origin != cloud.Foreign && !named {
			return image.Version
		}
	}
	return ""
}
