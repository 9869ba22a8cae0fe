package capture

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// keptReadsLife is the maximum age of reads from an earlier pass.
	keptReadsLife = time.Minute
	// trialReadsLife is the maximum age for version and pool during a trial. Before any effect Kamino reads both again.
	trialReadsLife = 15 * time.Minute
	// trialLookLife is the maximum age for the trial's instance while the instance boots.
	trialLookLife = time.Minute
)

// keptReads are an earlier pass's reads of the cloud that Kamino has not changed since.
type keptReads struct {
	// after is the last action of the earlier pass.
	after plan.Action
	at    time.Time
	// attempt is the name of the open attempt at a trial; empty without a trial.
	attempt string
	// cache has the reads to continue with; nil for a new read cache.
	cache *cloud.ReadCache
	// snapshot of the version, while the cloud prepares the version.
	snapshot *cloud.Snapshot
	// image in the pool's recipe, while the snapshot is deleted.
	image *cloud.Image
	// isReady: the trial node was Ready, so its instance runs.
	isReady bool
	// trial is the latest state of the trial's instance, read at trialAt. endedAt is the time of the latest request to
	// remove the trial.
	trial            cloud.Trial
	trialAt, endedAt time.Time
}

// life is the maximum age of the reads.
func (r *keptReads) life() time.Duration {
	if r.attempt != "" {
		return trialReadsLife
	}
	return keptReadsLife
}

// stillHolds reports whether the read of the trial's instance can be reused: the node is Ready, or boots.
func (r *keptReads) stillHolds(record *v1alpha1.TrialRecord, now time.Time) bool {
	boots := record.RunningSince != nil && r.trial.State == cloud.Complete && now.Sub(r.trialAt) < trialLookLife
	return !record.CleaningUp && (r.isReady || boots)
}

// withReads returns the context of a pass that reuses the reads.
func (r *keptReads) withReads(ctx context.Context) context.Context {
	if r.cache == nil {
		return cloud.WithReadCache(ctx)
	}
	return cloud.ContinueReadCache(ctx, r.cache)
}

// readsOf returns the reads that a pass may reuse; nil if the pass must read everything. Trials in the pool reuse no
// reads, because each pass may close the recipe.
func (e *Engine) readsOf(p *v1alpha1.Prototype, record v1alpha1.Record) *keptReads {
	kept, _ := e.keptReads.Load(p.UID)
	reads, found := kept.(*keptReads)
	if !found || attemptOf(record) != reads.attempt || p.Status.Failure != nil || p.DeletionTimestamp != nil ||
		reads.cache != nil && reads.cache.IsInvalid() || e.now().Sub(reads.at) > reads.life() {
		e.keptReads.Delete(p.UID)
		return nil
	}
	return reads
}

// attemptOf is the name of the open attempt in the record; empty without an open attempt.
func attemptOf(record v1alpha1.Record) string {
	if record.Trial == nil {
		return ""
	}
	return record.Trial.Name
}

// suffice reports whether the reads suffice for the decision.
func (r *keptReads) suffice(w *observed, d plan.Decision) bool {
	switch {
	case r.after == plan.Publish:
		return d.Do == plan.Publish || d.Do == plan.Wait && d.Why == plan.ForImage
	case r.image != nil:
		return isTidying(d.Do) || d.Do == plan.Succeed || d.Do == plan.Wait && d.Why == plan.ForDeletion
	case d.Do == plan.WatchTrial:
		return !r.isReady || w.trial.observation.Facts.Ready
	case d.Do == plan.EndTrial:
		return w.record.Trial.CleaningUp && w.trial.lost == nil
	}
	return false
}

// isTidying reports whether the action follows the promotion, and changes neither the version nor the image in the
// recipe.
func isTidying(do plan.Action) bool {
	return do == plan.DeletePod || do == plan.DeleteOrder
}

// keepRecipe keeps the reads of pool and versions after the promotion. The wait for the snapshot's deletion follows, and then
// the end. Other effects need new reads.
func keepRecipe(ctx context.Context, e *Engine, p *v1alpha1.Prototype) {
	kept, _ := e.keptReads.Load(p.UID)
	if reads, found := kept.(*keptReads); found && reads.after == plan.Promote && reads.image != nil {
		reads.cache = cloud.ReadCacheOf(ctx).Copy()
	}
}

// keepReads keeps the reads of this pass that its action did not change. The removal of a trial, for example, changes
// neither the version nor the pool.
func keepReads(before *cloud.ReadCache, e *Engine, w *observed, done plan.Action) {
	next := keptReads{after: done, at: w.observedAt, attempt: attemptOf(w.record)}
	if w.reads != nil {
		next.at = w.reads.at
	}
	r, image, snapshot := w.record.Trial, w.image, w.snapshot
	switch {
	case done == plan.Publish && image.State == cloud.Absent && next.attempt == "":
		next.snapshot = &snapshot
	case done == plan.Promote && next.attempt == "", w.reads != nil && w.reads.image != nil && isTidying(done):
		next.image, next.cache = &image, cloud.ReadCacheOf(cloud.WithReadCache(context.Background()))
	case next.attempt != "" && (done == plan.WatchTrial || done == plan.EndTrial):
		next.cache, next.trial, next.trialAt, next.endedAt = before, w.trial.cloud, w.trial.cloudAt, w.trial.endedAt
		next.isReady = w.trial.observation.Facts.Ready && r.RunningSince != nil && !r.CleaningUp
	default:
		e.keptReads.Delete(w.p.UID)
		return
	}
	e.keptReads.Store(w.p.UID, &next)
}
