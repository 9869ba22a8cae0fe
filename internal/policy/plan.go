package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// Plan is what would be decided about a pool, with all that was found out.
type Plan struct {
	*Outcome
	// Version that a capture would make.
	Version string
	// Prototype that would be written for the best candidate, whether or not a capture may begin now; nil
	// without a candidate.
	Prototype *v1alpha1.Prototype
	// Joins tells how the donor is seen to join, where the policy names no profile; and Unjoined why that could not be looked at.
	Joins    bootstrapkind.Answer
	Unjoined error
	// Refused tells that a person must see to something first: what the decision names.
	Refused bool
	// Trouble is why the cloud could not be asked, where nothing could be decided for that.
	Trouble error
}

// Unknown is why nobody can tell the profile of the capture; empty where it is known, or could not be looked at.
func (p Plan) Unknown() []cloud.Refusal {
	if p.Prototype == nil || p.Unjoined != nil {
		return nil
	}
	return p.Joins.Refusals()
}

// Plans are what a look at the policies gave.
type Plans struct {
	// Pools that one policy is for, by name.
	Pools []Plan
	// Troubles are, by policy, what is the matter with pools that it names.
	Troubles map[string][]Trouble
	// Prototypes of the cluster.
	Prototypes []v1alpha1.Prototype
}

// Trouble is why a policy does not decide about a pool that it names.
type Trouble struct {
	// Reason is that of the policy's condition, such as v1alpha1.PolicyPoolClaimedTwice.
	Reason string
	// Message is the sentence for people.
	Message string
}

// Plan decides about the pools of the policies, and writes nothing. only leaves pools out; nil leaves out none.
// The policies need not exist.
func (d *Decider) Plan(ctx context.Context, policies []v1alpha1.PrototypePolicy, only func(Pool) bool) (Plans, error) {
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
	w.sums = (&prober{Decider: d}).sums(w.now)
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, parallel)
	)
	due := map[Pool]string{}
	for pool, names := range w.claims.byPool {
		if len(names) == 1 && (only == nil || only(pool)) {
			due[pool] = names[0]
		}
	}
	together := d.Looks.Prefetch(ctx, idsOf(due))
	for pool, name := range due {
		i := slices.IndexFunc(policies, func(p v1alpha1.PrototypePolicy) bool { return p.Name == name })
		r := compile(&policies[i], w.now)
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			plan := d.plan(ctx, together, w, r, pool)
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

// plan decides about one pool. together is the context of Looks.Together.
func (d *Decider) plan(ctx, together context.Context, w *observed, r *rules, pool Pool) Plan {
	plan := Plan{Version: imageversion.Of(w.now)}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_ = untilAnswered(looking, func() error { // judge finds what it gave
		_, err := d.Looks.At(cloud.ContinueReadCache(looking, cloud.ReadCacheOf(together)), pool.ID, freshLook)
		if cloud.Is(err, cloud.Throttled) {
			d.Looks.Forget(pool.ID)
		}
		return err
	})
	if r.spec.Rebuild != nil {
		_ = d.count(looking, pool.ID) // and what this counts; the decision says if it is not known
	}
	plan.Outcome = d.judge(ctx, r, pool, w.prototypes[pool.ID], w.now)
	d.prefer(ctx, plan.Outcome, true, w.now)
	foresee(looking, d, w, r, plan.Outcome)
	plan.Refused, plan.Trouble = plan.trouble != nil || r.invalid != nil, plan.err
	if plan.Choice.Best != nil {
		if p, err := d.prototype(w, plan.Outcome, plan.Choice.Best.Name); err == nil {
			plan.Prototype = p
			plan.Joins, plan.Unjoined = d.join(ctx, plan.Outcome, p)
		}
	}
	return plan
}

const (
	// throttledTries is how often a plan asks a cloud that has no time: a plan of many pools takes more reads than Azure grants at once.
	throttledTries = 6
	// throttledPause is between two tries, where the cloud asks for none.
	throttledPause = time.Second
)

// untilAnswered asks a cloud that throttles again.
func untilAnswered(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		if try == throttledTries || !cloud.Is(err, cloud.Throttled) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(throttledPause, cloud.RetryAfter(err))):
		}
	}
}

// AdHoc is a policy that exists nowhere but in a command: for the named pools, or for all if none is named.
func AdHoc(name string, pools ...string) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name, p.Spec.Pools.Names = name, pools
	p.Spec = p.Spec.Defaulted()
	return p
}

// String names a pool for people: by its name, and where that is not enough by its ID.
func (p Pool) String() string { return fmt.Sprintf("%s (%s)", p.Name, p.ID) }
