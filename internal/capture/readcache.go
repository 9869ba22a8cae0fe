package capture

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// trialReadsLife is how old the version, the snapshot and the pool may be while a trial node is watched. Before any effect Kamino reads
// them again.
const trialReadsLife = 5 * time.Minute

// trialReads are what an earlier pass has read from the cloud while a trial is in progress.
type trialReads struct {
	attempt string
	sight   *cloud.Sight
	at      time.Time
	// isReady: the trial node was Ready, so that its instance runs.
	isReady bool
}

// readsOf returns the reads that a pass may start from; nil if the pass must look at everything. Only a trial beside the pool has any:
// in the pool each look decides how long the recipe stays open.
func (e *Engine) readsOf(p *v1alpha1.Prototype, record v1alpha1.Record) *trialReads {
	r := record.Trial
	kept, _ := e.trialReads.Load(p.UID)
	reads, found := kept.(*trialReads)
	if !found || r == nil || r.Name != reads.attempt || r.InPool || p.Status.Failure != nil || p.DeletionTimestamp != nil ||
		reads.sight.IsWritten() || e.now().Sub(reads.at) > trialReadsLife {
		e.trialReads.Delete(p.UID)
		return nil
	}
	return reads
}

// suffice reports whether the decision is one that needs no newer reads: to watch on, or to remove a trial whose end is written down.
func (r *trialReads) suffice(w *world, d plan.Decision) bool {
	switch d.Do {
	case plan.WatchTrial:
		return !r.isReady || w.trial.sight.Facts.Ready
	case plan.EndTrial:
		return w.record.Trial.Ending && w.trial.lost == nil
	default:
		return false
	}
}

// keepReads keeps what the pass has read for the next one, where that is going to watch the same attempt.
func keepReads(ctx context.Context, e *Engine, w *world, done plan.Action) {
	r := w.record.Trial
	if r == nil || r.Name == "" || r.InPool || done != plan.WatchTrial && done != plan.EndTrial {
		e.trialReads.Delete(w.p.UID)
		return
	}
	next := trialReads{attempt: r.Name, sight: cloud.SightOf(ctx), at: w.lookedAt, isReady: w.trial.sight.Facts.Ready && r.RunningSince != nil && !r.Ending}
	if w.reads != nil {
		next.sight, next.at = w.reads.sight, w.reads.at
	}
	e.trialReads.Store(w.p.UID, &next)
}
