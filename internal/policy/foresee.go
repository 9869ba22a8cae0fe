package policy

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/nodejoin"
)

// report puts what was found into the pools' reports.
func (d *prober) report() {
	for id, t := range d.watches {
		o := d.pools[id]
		if o == nil || !t.look.Known() {
			continue
		}
		o.probation(t)
		if was, is := o.wentBack(), wentBack(o.Pool.Name, t.look); (was == nil) != (is == nil) || was != nil && *was != *is {
			o.due = time.Time{} // that was acknowledged, or is news
		}
	}
}

func (o *Outcome) probation(t *watched) {
	went := history.Unacknowledged(t.look.Images)
	if back := history.RollingBack(t.look.Pool, t.look.Images); back != nil {
		back.At = time.Time{} // it has not gone back yet
		went = back
	}
	o.Status.Probation = nodejoin.Status(t.version, t.verdict, t.joins, went)
	o.unjoined = nil
	if t.verdict.State.Frozen() || t.stuck {
		o.unjoined = &trouble{reason: string(t.verdict.State), message: t.verdict.Message}
	}
}

// foresee says how a pool's nodes join, and what would follow, and changes nothing.
func foresee(ctx context.Context, d *Decider, w *observed, r *rules, o *Outcome) {
	census, able := cloud.As[cloud.InstanceLister](d.Cloud)
	if !able || !o.Look.Known() || r.invalid != nil {
		return
	}
	probes := &prober{Decider: d, calm: d.ObservedSince}
	t := &watched{pool: o.Pool, look: o.Look, version: current(o.Look, w.prototypes[o.Pool.ID])}
	for i := range w.policies {
		if w.policies[i].Name == r.policy {
			t.joins = nodejoin.Before(probationOf(&w.policies[i], o.Pool))
		}
	}
	if t.version != "" { // else no join bears on the verdict
		if err := probes.foresee(ctx, census, r, t, w); err != nil {
			o.Status.Probation = &v1alpha1.ProbationStatus{Version: t.version, State: "Unread", Message: "how its nodes join can't be looked at: " + err.Error()}
			return
		}
	}
	t.verdict = decide(probes.facts(t, r, w.now), t)
	o.probation(t)
}

// foresee judges the joins of one pool.
func (d *prober) foresee(ctx context.Context, census cloud.InstanceLister, r *rules, t *watched, w *observed) error {
	err := untilAnswered(ctx, func() (err error) {
		t.instances, err = census.Instances(ctx, t.pool.ID)
		return err
	})
	if err != nil {
		return err
	}
	var sums map[cloud.PoolID]nodecache.Sum
	d.watches = map[cloud.PoolID]*watched{t.pool.ID: t}
	sums, t.unlisted = d.believe(ctx, census, w.sums, w.now)
	return d.judgeJoins(ctx, r, t, sums, w.now)
}
