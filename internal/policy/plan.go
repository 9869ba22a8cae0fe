package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
)

// Plan is the decision that Kamino would make about a pool, with the facts of the decision.
type Plan struct {
	*PoolOutcome
	// Version is the version that a capture would create.
	Version string
	// Prototype is the Prototype for the best candidate, also if no capture may begin now; nil without a candidate.
	Prototype *v1alpha1.Prototype
	// Joins is the detected way in which the donor joins, if the policy names no profile. Unjoined is the error of the
	// detection.
	Joins    bootstrapkind.Answer
	Unjoined error
	// Turnover is how fast the pool replaces nodes of earlier images without rebuilds. SlowTurnover: the policy does not
	// rebuild such nodes, and the cloud could.
	Turnover     estimate.Turnover
	SlowTurnover bool
	// Refused reports that a person must act first: the decision names the action.
	Refused bool
	// Trouble is the cloud's error that prevented a decision.
	Trouble error
}

// Unknown returns why the profile of the capture is unknown; empty if the profile is known, or if the detection failed.
func (p Plan) Unknown() []cloud.Refusal {
	if p.Prototype == nil || p.Unjoined != nil {
		return nil
	}
	return p.Joins.Refusals()
}

// Plans are the decisions about the pools of several policies.
type Plans struct {
	// Pools with exactly one policy, by name.
	Pools []Plan
	// Troubles are problems with pools that a policy names, by policy.
	Troubles map[string][]Trouble
	// Prototypes of the cluster.
	Prototypes []v1alpha1.Prototype
}

// Attention returns the pool for the list of what needs a person.
func (p Plan) Attention() attention.Pool {
	if !p.Look.Known() {
		return attention.Pool{Name: p.Pool.Name}
	}
	return attention.PoolOf(history.Of(history.Facts{Pool: p.Look.Pool, Images: p.Look.Images}))
}

// Trouble is the reason why a policy does not decide about a pool that the policy names.
type Trouble struct {
	// Reason is the reason in the policy's condition, such as v1alpha1.PolicyPoolClaimedTwice.
	Reason string
	// Message is a sentence for people.
	Message string
}

// Plan decides about the pools of the policies without a write. only filters the pools; nil filters none. The policies need
// not exist in the cluster.
func (d *Decider) Plan(ctx context.Context, policies []v1alpha1.PrototypePolicy, only func(PoolRef) bool) (Plans, error) {
	w := &observed{now: d.now(), policies: policies}
	if err := d.gather(ctx, w); err != nil {
		return Plans{}, err
	}
	if w.unplaced != nil {
		return Plans{}, w.unplaced
	}
	plans := Plans{Prototypes: w.all, Troubles: map[string][]Trouble{}}
	for i := range policies {
		name := policies[i].Name
		for _, t := range w.claims.troubles[name] {
			plans.Troubles[name] = append(plans.Troubles[name], Trouble{t.reason, t.message})
		}
	}
	w.sums = d.Nodes.Sums(w.now)
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, parallel)
	)
	due := map[PoolRef]string{}
	for pool, names := range w.claims.byPool {
		if len(names) == 1 && (only == nil || only(pool)) {
			due[pool] = names[0]
		}
	}
	prefetched := d.PoolCache.Prefetch(ctx, idsOf(due))
	for pool, name := range due {
		i := slices.IndexFunc(policies, func(p v1alpha1.PrototypePolicy) bool { return p.Name == name })
		r := compile(&policies[i], w.now)
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			plan := d.plan(ctx, prefetched, w, r, pool)
			mu.Lock()
			defer mu.Unlock()
			plans.Pools = append(plans.Pools, plan)
		})
	}
	wait.Wait()
	slices.SortFunc(plans.Pools, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(a.Pool.Name, b.Pool.Name), cmp.Compare(a.Pool.ID, b.Pool.ID))
	})
	return plans, ctx.Err()
}

// plan decides about one pool. together is the context of PoolCache.Prefetch.
func (d *Decider) plan(ctx, prefetched context.Context, w *observed, r *rules, pool PoolRef) Plan {
	plan := Plan{Version: imageversion.Of(w.now)}
	lookCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, _ = d.PoolCache.At(cloud.ContinueReadCache(lookCtx, cloud.ReadCacheOf(prefetched)), pool.ID, freshMaxAge) // judge reads the result
	if r.spec.Rebuild != nil {
		_, _ = d.PoolCache.Instances(lookCtx, pool.ID, freshMaxAge) // judge reads the count, or reports an unknown count
	}
	plan.PoolOutcome = d.decidePool(ctx, r, pool, w.prototypes[pool.ID], w.now)
	d.prefer(ctx, plan.PoolOutcome, true, w.now)
	preview(lookCtx, d, w, r, plan.PoolOutcome)
	plan.Turnover = turnover(d, plan.PoolOutcome, w.now)
	outdated := r.spec.Rebuild != nil && r.spec.Rebuild.Outdated != nil
	plan.SlowTurnover = plan.Turnover.IsSlow() && !outdated && d.Cloud.CanRebuild(pool.ID)
	plan.Refused, plan.Trouble = plan.trouble != nil || r.invalid != nil, plan.err
	if plan.Choice.Best != nil {
		if p, err := d.prototype(w, plan.PoolOutcome, plan.Choice.Best.Name); err == nil {
			plan.Prototype = p
			plan.Joins, plan.Unjoined = d.join(ctx, plan.PoolOutcome, p)
		}
	}
	return plan
}

// turnover estimates how fast the pool replaces nodes of earlier images. Nodes without the label of a version are unknown.
func turnover(d *Decider, o *PoolOutcome, now time.Time) estimate.Turnover {
	var created []time.Time
	earlier, current := 0, v1alpha1.VersionLabelValue(o.Look.Pool.Recipe.Version)
	for _, n := range d.Nodes.Of(o.Pool.ID) {
		created = append(created, n.CreationTimestamp.Time)
		if label := n.Labels[v1alpha1.VersionLabel]; o.Look.Pool.Recipe.Version != "" && label != "" && label != current {
			earlier++
		}
	}
	return estimate.TurnoverOf(created, earlier, now)
}

// AdHoc returns a policy that exists only in a command, for the named pools or, without names, for all pools.
func AdHoc(name string, pools ...string) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name, p.Spec.Pools.Names = name, pools
	p.Spec = p.Spec.Defaulted()
	return p
}

// String returns the name with the ID.
func (p PoolRef) String() string { return fmt.Sprintf("%s (%s)", p.Name, p.ID) }
