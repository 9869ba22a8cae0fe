package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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
	// Trouble is why the cloud could not be asked.
	Trouble error
}

// Plans are what a look at the policies gave.
type Plans struct {
	// Pools that one policy is for, by name.
	Pools []Plan
	// Troubles are, by policy, the sentences about pools that it names.
	Troubles map[string][]string
	// Prototypes of the cluster.
	Prototypes []v1alpha1.Prototype
}

// Plan decides about the pools of the policies, and writes nothing. only leaves pools out; nil leaves out none.
// The policies need not exist.
func (d *Decider) Plan(ctx context.Context, policies []v1alpha1.PrototypePolicy, only func(Pool) bool) (Plans, error) {
	w := &world{now: d.now(), policies: policies}
	if err := d.gather(ctx, w); err != nil {
		return Plans{}, err
	}
	plans := Plans{Prototypes: w.all, Troubles: map[string][]string{}}
	for i := range policies {
		name := policies[i].Name
		for _, t := range w.claims.troubles[name] {
			plans.Troubles[name] = append(plans.Troubles[name], t.message)
		}
	}
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, parallel)
	)
	for pool, names := range w.claims.byPool {
		if len(names) != 1 || only != nil && !only(pool) {
			continue
		}
		i := slices.IndexFunc(policies, func(p v1alpha1.PrototypePolicy) bool { return p.Name == names[0] })
		r := compile(&policies[i], w.now)
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			plan := d.plan(ctx, w, r, pool)
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

func (d *Decider) plan(ctx context.Context, w *world, r *rules, pool Pool) Plan {
	plan := Plan{Version: imageversion.Of(w.now)}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, plan.Trouble = d.Looks.At(looking, pool.ID, freshLook) // judge finds what it gave
	plan.Outcome = d.judge(ctx, r, pool, w.prototypes[pool.ID], w.now)
	if plan.Choice.Best != nil {
		if p, err := d.prototype(w, plan.Outcome, plan.Choice.Best.Name); err == nil {
			plan.Prototype = p
		}
	}
	return plan
}

// StepEstimate is how long one step of a capture probably takes.
type StepEstimate struct {
	Phase v1alpha1.Phase `json:"phase"`
	// Seconds, the median of those captures that had the step.
	Seconds int64 `json:"seconds"`
}

// Estimate is how long a capture probably takes, from what captures of this cluster have taken.
type Estimate struct {
	// Captures that it rests on. Zero: nothing is known.
	Captures int `json:"captures"`
	// Steps in the order of a capture, and Seconds of them all.
	Steps   []StepEstimate `json:"steps,omitempty"`
	Seconds int64          `json:"seconds"`
	// OutOfServiceSeconds that the donor is away.
	OutOfServiceSeconds int64 `json:"outOfServiceSeconds"`
}

// Total is how long all steps take.
func (e Estimate) Total() time.Duration { return time.Duration(e.Seconds) * time.Second }

// OutOfService is how long the donor is away.
func (e Estimate) OutOfService() time.Duration {
	return time.Duration(e.OutOfServiceSeconds) * time.Second
}

// EstimateOf takes the medians of the captures that succeeded.
func EstimateOf(prototypes []v1alpha1.Prototype) Estimate {
	var (
		estimate Estimate
		order    []v1alpha1.Phase
		steps    = map[v1alpha1.Phase][]time.Duration{}
		away     []time.Duration
	)
	for i := range prototypes {
		p := &prototypes[i]
		if p.Status.Phase != v1alpha1.PhaseSucceeded || len(p.Status.Steps) == 0 {
			continue
		}
		estimate.Captures++
		for phase, took := range stepsOf(p) {
			if _, known := steps[phase]; !known {
				order = append(order, phase)
			}
			steps[phase] = append(steps[phase], took)
		}
		if donor := p.Status.Donor; donor != nil && donor.ReservedAt != nil && donor.ReleasedAt != nil {
			away = append(away, donor.ReleasedAt.Sub(donor.ReservedAt.Time))
		}
	}
	slices.SortFunc(order, func(a, b v1alpha1.Phase) int { return cmp.Compare(place(a), place(b)) })
	var total time.Duration
	for _, phase := range order {
		took := median(steps[phase])
		total += took
		estimate.Steps = append(estimate.Steps, StepEstimate{phase, int64(took.Round(time.Second).Seconds())})
	}
	estimate.Seconds = int64(total.Round(time.Second).Seconds())
	estimate.OutOfServiceSeconds = int64(median(away).Round(time.Second).Seconds())
	return estimate
}

// stepsOf adds up how long a capture was in each phase: it may have entered one more than once.
func stepsOf(p *v1alpha1.Prototype) map[v1alpha1.Phase]time.Duration {
	took := map[v1alpha1.Phase]time.Duration{}
	for _, step := range p.Status.Steps {
		if step.FinishedAt != nil {
			took[step.Phase] += step.FinishedAt.Sub(step.StartedAt.Time)
		}
	}
	return took
}

// phases in the order of a capture.
var phases = []v1alpha1.Phase{
	v1alpha1.PhasePending, v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing,
	v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseWaitingReady, v1alpha1.PhaseReleasing,
	v1alpha1.PhasePublishing, v1alpha1.PhasePromoting, v1alpha1.PhaseRetiring, v1alpha1.PhaseScalingOut,
}

func place(phase v1alpha1.Phase) int {
	if i := slices.Index(phases, phase); i >= 0 {
		return i
	}
	return len(phases)
}

// median of durations; zero if there are none. Of an even number it is the mean of the two in the middle.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Clone(all)
	slices.Sort(all)
	middle := len(all) / 2
	if len(all)%2 == 1 {
		return all[middle]
	}
	return (all[middle-1] + all[middle]) / 2
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
