package policy

import (
	"cmp"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// Result is what the last pass left of a pool.
type Result struct {
	Pool   Pool
	Policy string
	Status v1alpha1.PoolStatus
	// Acts tells that a step of going back was taken, and that another pass takes the next one.
	Acts bool
	// Queued tells that a capture begins as soon as another one has given its donor back.
	Queued bool
	// Refused tells that a person must see to something first: what the decision names.
	Refused bool
	// Err is the cloud's or the API server's, if it could not be asked.
	Err error
}

// Results lists the pools that one policy is for, by name.
func (d *Decider) Results() []Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make([]Result, 0, len(d.pools))
	for _, o := range d.pools {
		r := Result{Pool: o.Pool, Policy: o.Policy, Status: o.Status, Queued: o.queued}
		if t := d.probes.watches[o.Pool.ID]; t != nil {
			r.Acts = t.acts
		}
		r.Refused = o.trouble != nil || o.rules.invalid != nil || o.refusal.decision != nil && o.Status.Decision == o.refusal.decision
		if o.trouble != nil {
			r.Err = o.err
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Pool.Name, b.Pool.Name), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return results
}

// Troubles are, by policy, the sentences about the pools that it names: none of that name, or claimed twice.
func (d *Decider) Troubles() map[string][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := map[string][]string{}
	for name, troubles := range d.said {
		for _, t := range troubles {
			said[name] = append(said[name], t.message)
		}
	}
	return said
}

// Probation is how the nodes of a pool's version join, for whoever counts.
type Probation struct {
	Pool    Pool
	Version string
	Tally   joinhealth.Tally
	// Suspect is the version that the pool went back from, until a person has acknowledged it, and how its nodes joined.
	Suspect      string
	SuspectTally joinhealth.Tally
	// Frozen: the pool went back and captures nothing. Stays: it stays on a version whose nodes do not join.
	Frozen, Stays bool
}

func (d *prober) tell() {
	if d.Probation == nil {
		return
	}
	told := make([]Probation, 0, len(d.watches))
	for _, t := range d.watches {
		p := Probation{Pool: t.pool, Version: t.version, Tally: joinhealth.Count(t.joins, t.version), Stays: t.verdict.State.Frozen() || t.stuck}
		if went := history.Unacknowledged(t.look.Images); went != nil {
			p.Frozen = history.RollingBack(t.look.Pool, t.look.Images) == nil
			p.Suspect, p.SuspectTally = went.Version, joinhealth.Count(t.joins, went.Version)
		}
		told = append(told, p)
	}
	slices.SortFunc(told, func(a, b Probation) int { return cmp.Compare(a.Pool.ID, b.Pool.ID) })
	d.Probation(told)
}
