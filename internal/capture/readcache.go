package capture

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// keptReadsLife is how old reads of an earlier pass may be.
	keptReadsLife = time.Minute
	// trialReadsLife is the same of the version and the pool while a trial node is watched. Before any effect Kamino reads them again.
	trialReadsLife = 15 * time.Minute
	// trialLookLife is the same of the trial's instance while it runs and its node is not Ready.
	trialLookLife = time.Minute
)

// keptReads are what an earlier pass has read from the cloud, and what has not changed since by anything that Kamino did.
type keptReads struct {
	// after is the action of that pass.
	after plan.Action
	at    time.Time
	// attempt at a trial; empty without one.
	attempt string
	// sight has the reads of a look that goes on; nil where a new look begins.
	sight *cloud.ReadCache
	// snapshot from which the version is published, while what the version needs is made.
	snapshot *cloud.Snapshot
	// image that the pool's recipe names, while the snapshot is removed.
	image *cloud.Image
	// isReady: the trial node was Ready, so that its instance runs.
	isReady bool
	// trial is the newest look at the trial's instance, and trialAt its time. endedAt is when the cloud was told to remove the trial.
	trial            cloud.Trial
	trialAt, endedAt time.Time
}

// life is how old the reads may be.
func (r *keptReads) life() time.Duration {
	if r.attempt != "" {
		return trialReadsLife
	}
	return keptReadsLife
}

// stillHolds reports whether the look at the trial's instance needs no repetition: the node speaks for the instance, or boots.
func (r *keptReads) stillHolds(record *v1alpha1.TrialRecord, now time.Time) bool {
	boots := record.RunningSince != nil && r.trial.State == cloud.Complete && now.Sub(r.trialAt) < trialLookLife
	return !record.Ending && (r.isReady || boots)
}

// look is the context of a pass that starts from the reads.
func (r *keptReads) look(ctx context.Context) context.Context {
	if r.sight == nil {
		return cloud.WithReadCache(ctx)
	}
	return cloud.ContinueReadCache(ctx, r.sight)
}

// readsOf returns the reads that a pass may start from; nil if the pass must look at everything. Of trials only one beside the pool has
// any: in the pool each look decides how long the recipe stays open.
func (e *Engine) readsOf(p *v1alpha1.Prototype, record v1alpha1.Record) *keptReads {
	kept, _ := e.keptReads.Load(p.UID)
	reads, found := kept.(*keptReads)
	if !found || attemptOf(record) != reads.attempt || p.Status.Failure != nil || p.DeletionTimestamp != nil ||
		reads.sight != nil && reads.sight.IsInvalid() || e.now().Sub(reads.at) > reads.life() {
		e.keptReads.Delete(p.UID)
		return nil
	}
	return reads
}

// attemptOf is the name of the attempt at a trial that the record has; empty if none is open.
func attemptOf(record v1alpha1.Record) string {
	if record.Trial == nil {
		return ""
	}
	return record.Trial.Name
}

// suffice reports whether the decision is one that needs no newer reads.
func (r *keptReads) suffice(w *observed, d plan.Decision) bool {
	switch {
	case r.after == plan.Publish:
		return d.Do == plan.Publish || d.Do == plan.Wait && d.Why == plan.ForImage
	case r.image != nil:
		return isTidying(d.Do) || d.Do == plan.Succeed || d.Do == plan.Wait && d.Why == plan.ForDeletion
	case d.Do == plan.WatchTrial:
		return !r.isReady || w.trial.sight.Facts.Ready
	case d.Do == plan.EndTrial:
		return w.record.Trial.Ending && w.trial.lost == nil
	}
	return false
}

// isTidying reports whether the action is one of those after the promotion, which change neither the version nor what the recipe names.
func isTidying(do plan.Action) bool {
	return do == plan.Retire || do == plan.ScaleOut || do == plan.DeletePod || do == plan.DeleteOrder
}

// keepReads keeps for the next pass what the pass has read before its action and the action does not change: the removal of a trial
// changes neither the version nor the pool.
func keepReads(before *cloud.ReadCache, e *Engine, w *observed, done plan.Action) {
	next := keptReads{after: done, at: w.lookedAt, attempt: attemptOf(w.record)}
	if w.reads != nil {
		next.at = w.reads.at
	}
	r, image, snapshot := w.record.Trial, w.image, w.snapshot
	switch {
	case done == plan.Publish && image.State == cloud.Absent && next.attempt == "":
		next.snapshot = &snapshot
	case done == plan.Promote && next.attempt == "", w.reads != nil && w.reads.image != nil && isTidying(done):
		next.image, next.sight = &image, cloud.ReadCacheOf(cloud.WithReadCache(context.Background()))
	case next.attempt != "" && !r.InPool && (done == plan.WatchTrial || done == plan.EndTrial):
		next.sight, next.trial, next.trialAt, next.endedAt = before, w.trial.cloud, w.trial.cloudAt, w.trial.endedAt
		next.isReady = w.trial.sight.Facts.Ready && r.RunningSince != nil && !r.Ending
	default:
		e.keptReads.Delete(w.p.UID)
		return
	}
	e.keptReads.Store(w.p.UID, &next)
}
