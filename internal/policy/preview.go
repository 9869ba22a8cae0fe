package policy

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
)

// report writes the join tracking into the pools' reports.
func (d *joinTracker) report() {
	for id, t := range d.watches {
		o := d.pools[id]
		if o == nil || !t.look.Known() {
			continue
		}
		o.joinHealth(t)
		if was, is := o.openRollback(), openRollback(o.Pool.Name, t.look); (was == nil) != (is == nil) || was != nil && *was != *is {
			o.due = time.Time{} // a rollback is new, or a person acknowledged the rollback
		}
	}
}

func (o *PoolOutcome) joinHealth(t *watchedPool) {
	went := history.Unacknowledged(t.look.Images)
	if back := history.RollingBack(t.look.Pool, t.look.Images); back != nil {
		back.At = time.Time{} // the rollback has not ended yet
		went = back
	}
	o.Status.JoinHealth = nodejoin.Status(t.version, t.verdict, t.joins, t.cohort.now.Line(), went)
	o.notJoining = nil
	if t.verdict.State == joinhealth.Failing || t.stuck {
		o.notJoining = &policyProblem{reason: string(t.verdict.State), message: t.verdict.Message}
	}
}

// preview reports how a pool's nodes join and what Kamino would do, without a change.
func preview(ctx context.Context, d *Decider, w *observed, r *rules, o *PoolOutcome) {
	if !o.Look.Known() || r.invalid != nil {
		return
	}
	probes := &joinTracker{Decider: d, observedSince: d.NewNodes.ObservedSince}
	t := &watchedPool{pool: o.Pool, look: o.Look, version: current(o.Look, w.prototypes[o.Pool.ID])}
	for i := range w.policies {
		if w.policies[i].Name == r.policy {
			t.joins = nodejoin.Before(joinHealthOf(&w.policies[i], o.Pool))
		}
	}
	if t.version != "" { // without a version, no join affects the verdict
		if err := probes.preview(ctx, r, t, w); err != nil {
			o.Status.JoinHealth = &v1alpha1.JoinHealthStatus{Version: t.version, State: "Unread", Message: "join tracking failed: " + err.Error()}
			return
		}
	}
	t.verdict = decide(probes.facts(t, r, w.now), t)
	var known *v1alpha1.JoinHealthStatus
	for i := range w.policies {
		if w.policies[i].Name == r.policy {
			known = joinHealthOf(&w.policies[i], o.Pool)
		}
	}
	if known != nil && known.Version == t.version && known.State == string(joinhealth.Failing) && t.verdict.State == joinhealth.Failing {
		t.verdict.Message = known.Message // the controller sees the joins of all pools, and a preview sees one pool
	}
	o.joinHealth(t)
}

// preview judges the joins of one pool.
func (d *joinTracker) preview(ctx context.Context, r *rules, t *watchedPool, w *observed) error {
	var err error
	if t.list, err = d.PoolCache.Instances(ctx, t.pool.ID, freshMaxAge); err != nil {
		return err
	}
	var sums map[cloud.PoolID]nodecache.Summary
	d.watches = map[cloud.PoolID]*watchedPool{t.pool.ID: t}
	sums, t.unlisted = d.verifySums(ctx, w.sums, w.now)
	if err := d.judgeJoins(ctx, r, t, sums, w.now); err != nil {
		return err
	}
	d.compareCohorts(t, nodejoin.Limits(r.spec.Rollback), w.now)
	return nil
}
