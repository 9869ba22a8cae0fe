package policy

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// maxSteps limits the steps of one rollback in one pass: a fresh look, the recipe, the tag of the version, and the last
// look.
const maxSteps = 4

// finishAll finishes rollbacks in pools that Kamino does not watch: pools without a policy, with several policies, or
// without a look since the start of the process. A rollback that has begun needs no policy any more.
func (d *joinTracker) finishAll(ctx context.Context, w *observed) {
	if d.Policies != nil {
		return // a command acts only on the pools that the command names
	}
	before := d.unwatched
	d.unwatched = map[cloud.PoolID]time.Time{}
	for _, pool := range w.pools {
		if t := d.watches[pool.ID]; t != nil && t.look.Known() || ctx.Err() != nil {
			continue
		}
		due := before[pool.ID]
		if !due.After(w.now) {
			due = d.finish(ctx, w, pool)
		}
		d.unwatched[pool.ID] = due
	}
}

// finish looks for an unfinished rollback of the pool, at two requests in hours, and takes the steps. finish returns the
// time of the next look.
func (d *joinTracker) finish(ctx context.Context, w *observed, pool PoolRef) (due time.Time) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	life := idleMaxAge
	for range maxSteps {
		look, err := d.PoolCache.At(ctx, pool.ID, life)
		t := &watchedPool{pool: pool, look: look, version: look.Pool.Recipe.Version}
		if err != nil {
			d.readFailed(t, err, w.now)
			return t.due
		}
		begun := unfinishedRollback(look)
		if begun == nil {
			d.endIntent(ctx, look)
			return w.now.Add(reconsider)
		}
		if life == idleMaxAge { // the cached look may be old
			life = stepInterval
			d.PoolCache.Forget(pool.ID)
			continue
		}
		t.verdict = decide(joinhealth.Facts{Pool: pool.Name}, t)
		if d.step(ctx, w, t, begun); !t.acts {
			d.Log.Info("a rollback that was begun is not finished", "pool", pool.Name, "why", t.verdict.Message)
			return t.due
		}
	}
	return w.now.Add(stepInterval)
}

// endIntent deletes the record of a rollback that is over, for example because a person acknowledged it: the record would confirm
// the same tags later.
func (d *joinTracker) endIntent(ctx context.Context, look PoolLook) {
	all := history.AutoRollbacks(look.Images)
	if len(all) == 0 || d.PoolCache.Intents == nil || d.endedIntents[look.Pool.ID].Equal(all[0].At) {
		return
	}
	if err := d.PoolCache.Intents.end(ctx, look.Pool.ID); err != nil {
		d.Log.Info("the record of a rollback is left", "pool", look.Pool.Name, "why", err.Error())
		return
	}
	if d.endedIntents == nil {
		d.endedIntents = map[cloud.PoolID]time.Time{}
	}
	d.endedIntents[look.Pool.ID] = all[0].At
}
