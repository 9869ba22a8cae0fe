package policy

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// mostSteps of one rollback in one pass: a fresh look, the recipe, the tag of the version that the pool has come to, and the last look.
const mostSteps = 4

// finishAll brings rollbacks to their end that were begun in pools whose nodes are not watched: no policy is for such a pool, or several
// are, or nothing has asked the cloud about it since the process began. What was begun is no policy's decision any more.
func (d *prober) finishAll(ctx context.Context, w *observed) {
	if d.Policies != nil {
		return // of a command, which is for the pools that it names
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

// finish looks whether a rollback of the pool was begun, which costs two requests in hours, and takes its steps. It returns when to look again.
func (d *prober) finish(ctx context.Context, w *observed, pool Pool) (due time.Time) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	life := idleLookLife
	for range mostSteps {
		look, err := d.Looks.At(ctx, pool.ID, life)
		t := &watched{pool: pool, look: look, version: look.Pool.Recipe.Version}
		if err != nil {
			d.unread(t, err, w.now)
			return t.due
		}
		begun := unfinished(look)
		if begun == nil {
			return w.now.Add(reconsider)
		}
		if life == idleLookLife { // what is remembered may be old
			life = actPace
			d.Looks.Forget(pool.ID)
			continue
		}
		t.verdict = decide(joinhealth.Facts{Pool: pool.Name}, t)
		if d.step(ctx, w, t, begun); !t.acts {
			d.Log.Info("a rollback that was begun is not finished", "pool", pool.Name, "why", t.verdict.Message)
			return t.due
		}
	}
	return w.now.Add(actPace)
}
