package policy

import (
	"cmp"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Result is what the last pass left of a pool.
type Result struct {
	Pool   Pool
	Policy string
	Status v1alpha1.PoolStatus
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
