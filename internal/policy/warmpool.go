package policy

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/recipe"
)

const (
	// warmInterval is the pause between two looks at a warm pool that is being renewed.
	warmInterval = 30 * time.Second
	// warmAgain is the pause after an error, or without the permission.
	warmAgain = 30 * time.Minute
)

// mayNeedWarming reports whether a pass could find work. The first pass after a start looks for the record of a renewal.
func (t *watchedPool) mayNeedWarming() bool {
	warm := t.look.Pool.Warm
	if t.renews || warm == nil {
		return t.renews
	}
	return t.warmDue.IsZero() || t.version != "" && (warm.Unknown != "" || warm.Old(t.look.Pool.Recipe) > 0)
}

// renewWarmPool does the next step of the renewal of a pool's warm pool, after a promotion or a rollback. Only a credential with the
// permissions of warm pools does so.
func (d *joinTracker) renewWarmPool(ctx context.Context, w *observed, r *rules, t *watchedPool) {
	if d.PoolCache.Intents == nil || d.Policies != nil || t.warmDue.After(w.now) || !t.mayNeedWarming() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	look, err := d.PoolCache.At(ctx, t.pool.ID, stepInterval)
	may := t.version != "" && !r.spec.Suspend && !r.spec.DryRun
	if err == nil && may && !t.renews {
		may, err = d.mayRenew(ctx, t.pool.ID)
	}
	did := recipe.Done
	if err == nil {
		decision, failed := recipe.Warmer{Cloud: d.Cloud, Kube: d.PoolCache.Intents.Kube, Namespace: d.PoolCache.Intents.Namespace}.Pass(ctx, look.Pool, may)
		did, err = decision.Do, failed
	}
	t.warmDue, t.renews = w.now.Add(warmAgain), did != recipe.Done && did != recipe.Forget
	switch {
	case err != nil:
		d.Log.Info("the warm pool of a pool is not renewed", "pool", t.pool.Name, "why", err.Error())
	case did != recipe.Done:
		t.warmDue = w.now.Add(warmInterval)
		d.PoolCache.Forget(t.pool.ID)
		d.Log.Info("warm pool", "pool", t.pool.Name, "did", string(did))
	}
}

// mayRenew reports whether the credential has the permissions of warm pools, which an administrator grants on purpose.
func (d *joinTracker) mayRenew(ctx context.Context, pool cloud.PoolID) (bool, error) {
	if d.Permissions == nil {
		return false, nil
	}
	all, err := d.Permissions(ctx, pool)
	return err == nil && slices.ContainsFunc(all, func(p cloud.Permission) bool { return p.For == cloud.ForWarmPool }) &&
		!slices.ContainsFunc(all, func(p cloud.Permission) bool { return p.For == cloud.ForWarmPool && !p.Allowed }), err
}
