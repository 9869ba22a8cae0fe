package policy

import (
	"cmp"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// PoolResult is the state of a pool after the last pass.
type PoolResult struct {
	Pool   PoolRef
	Policy string
	Status v1alpha1.PoolStatus
	// Acts reports that a step of a rollback or of a check for patches ran, and that another pass takes the next step.
	Acts bool
	// Queued reports that a capture begins as soon as another capture has returned its donor.
	Queued bool
	// Refused reports that a person must act first: the decision names the action.
	Refused bool
	// Err is the error of the cloud or of the API server.
	Err error
}

// Results lists the pools with exactly one policy, by name.
func (d *Decider) Results() []PoolResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make([]PoolResult, 0, len(d.pools))
	for _, o := range d.pools {
		r := PoolResult{Pool: o.Pool, Policy: o.Policy, Status: o.Status, Queued: o.queued}
		if t := d.probes.watches[o.Pool.ID]; t != nil {
			r.Acts = t.acts
		}
		r.Acts = r.Acts || o.pioneer != nil && o.pioneer.check != nil
		r.Refused = o.trouble != nil || o.rules.invalid != nil || o.refusal.decision != nil && o.Status.Decision == o.refusal.decision
		if o.trouble != nil {
			r.Err = o.err
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b PoolResult) int {
		return cmp.Or(cmp.Compare(a.Pool.Name, b.Pool.Name), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return results
}

// Troubles are messages about pools that a policy names, by policy: an unknown pool, or a pool with two policies.
func (d *Decider) Troubles() map[string][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := map[string][]string{}
	for name, troubles := range d.poolTroubles {
		for _, t := range troubles {
			said[name] = append(said[name], t.message)
		}
	}
	return said
}

// JoinHealth is the join tracking of a pool's version, for metrics.
type JoinHealth struct {
	Pool    PoolRef
	Version string
	Tally   joinhealth.Tally
	// Suspect is the version before the rollback, until a person acknowledges the rollback, and SuspectTally the joins of
	// its nodes.
	Suspect      string
	SuspectTally joinhealth.Tally
	// Frozen: Kamino rolled the pool back and captures nothing. Stays: the pool stays on a version whose nodes do not join.
	Frozen, Stays bool
}

func (d *joinTracker) reportJoins() {
	if d.Observers.JoinHealth == nil {
		return
	}
	joins := make([]JoinHealth, 0, len(d.watches))
	for _, t := range d.watches {
		p := JoinHealth{Pool: t.pool, Version: t.version, Tally: joinhealth.Count(t.joins, t.version), Stays: t.verdict.State == joinhealth.Failing || t.stuck}
		if went := history.Unacknowledged(t.look.Images); went != nil {
			p.Frozen = history.RollingBack(t.look.Pool, t.look.Images) == nil
			p.Suspect, p.SuspectTally = went.Version, joinhealth.Count(t.joins, went.Version)
		}
		joins = append(joins, p)
	}
	slices.SortFunc(joins, func(a, b JoinHealth) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	d.Observers.JoinHealth(joins)
}
