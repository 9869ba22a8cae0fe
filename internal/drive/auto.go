package drive

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
)

// autoLook is the time between two looks at the captures of a run.
const autoLook = time.Second

// Auto is one pass over policies: deciding, driving whenever the Lease is to be had, and watching.
type Auto struct {
	Cluster   *cluster.Connection
	Engine    Engine
	Decider   *policy.Decider
	Namespace string
	// Only policy that is carried out; all if empty.
	Only string
	Now  func() time.Time
	Log  logr.Logger
	// Tell is told what happens, one thing at a time.
	Tell func(AutoNews)

	mu   sync.Mutex
	mine map[string]*followed // by the Prototype's name
	news chan struct{}        // of one place: there is something to drive
	// begun are the pools that had their capture of this run, or have it now.
	begun map[cloud.PoolID]bool
	// seen tells one state of all captures from another.
	seen    string
	driving *Driving
	away    time.Time
}

// AutoNews is one thing that happened in a run: one of its fields is set, beside the Pool that it is about.
type AutoNews struct {
	Pool policy.Pool
	// Begun is why a capture of the pool is followed from now on.
	Begun string
	// Seen is that capture, as it is now.
	Seen *v1alpha1.Prototype
	// Driving is who does the work.
	Driving *Driving
	// Away is what the API server's silence looks like, which is waited for; NoLease why the Lease can't be had.
	Away, NoLease error
}

// AutoResult is what came of one pool.
type AutoResult struct {
	policy.Result
	// Capture of this run; nil if there was none. It was deleted by somebody if Gone.
	Capture *v1alpha1.Prototype
	Gone    bool
}

// followed is a capture of this run.
type followed struct {
	pool      policy.Pool
	prototype *v1alpha1.Prototype
	gone      bool
}

// Run returns when nothing is left to wait for, or with the cause of the context's end. Either way no pass of the engine runs any more
// and the Lease is given back.
func (r *Auto) Run(ctx context.Context) error {
	r.mine, r.begun, r.news = map[string]*followed{}, map[cloud.PoolID]bool{}, make(chan struct{}, 1)
	r.Decider.Admit = func(policy string, pool policy.Pool) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return (r.Only == "" || r.Only == policy) && !r.begun[pool.ID]
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var driving sync.WaitGroup
	started := false
	for {
		done, err := r.look(ctx)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case err != nil && !r.patient(err):
		case err == nil && done:
			stop()
			driving.Wait()
			return nil
		default:
			err = nil
		}
		if err != nil {
			stop()
			driving.Wait()
			return err
		}
		if !started && r.unfinished() > 0 {
			started = true
			driving.Go(func() { r.drive(working) })
		}
		select {
		case <-ctx.Done():
		case <-time.After(autoLook):
		}
	}
}

// patient tells whether an error may pass: the API server is away for not too long.
func (r *Auto) patient(err error) bool {
	if !cluster.Unreachable(err) {
		return false
	}
	if r.away.IsZero() {
		r.away = r.Now()
		r.tell(AutoNews{Away: err})
	}
	return r.Now().Sub(r.away) < patience
}

func (r *Auto) tell(n AutoNews) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Tell(n)
}

// look sees how far the captures are, and decides whenever one of them began, ended or gave its node back. It
// returns true if there is nothing more to wait for.
func (r *Auto) look(ctx context.Context) (done bool, err error) {
	all, err := r.Cluster.Prototypes(ctx)
	if err != nil {
		return false, err
	}
	r.away = time.Time{}
	r.see(all)
	acts := slices.ContainsFunc(r.Decider.Results(), func(p policy.Result) bool { return r.ours(p) && p.Acts })
	if state := capturesState(all); state != r.seen || acts {
		if err := ReadNodes(ctx, r.Cluster, r.Decider.Nodes); err != nil {
			return false, err
		}
		if _, err := r.Decider.Pass(ctx); err != nil {
			return false, err
		}
		r.seen = state
		return false, r.adopt(ctx)
	}
	queued := slices.ContainsFunc(r.Decider.Results(), func(p policy.Result) bool { return r.ours(p) && p.Queued })
	return !queued && r.unfinished() == 0, nil
}

// capturesState tells one state of the captures from another, as far as a decision depends on it.
func capturesState(all []v1alpha1.Prototype) string {
	state := "captures:\n"
	for i := range all {
		state += policy.State(&all[i]) + "\n"
	}
	return state
}

func (r *Auto) ours(p policy.Result) bool { return r.Only == "" || r.Only == p.Policy }

// adopt takes on the captures that the decider knows to be in flight in the policies' pools.
func (r *Auto) adopt(ctx context.Context) error {
	all, err := r.Cluster.Prototypes(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, result := range r.Decider.Results() {
		name := result.Status.Prototype
		if name == "" || r.mine[name] != nil || !r.ours(result) {
			continue
		}
		for i := range all {
			if all[i].Name != name {
				continue
			}
			r.mine[name], r.begun[result.Pool.ID] = &followed{pool: result.Pool, prototype: &all[i]}, true
			r.Tell(AutoNews{Pool: result.Pool, Begun: result.Status.Decision.Message})
		}
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
	return nil
}

// see takes in how far the captures are, and tells.
func (r *Auto) see(all []v1alpha1.Prototype) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, f := range r.mine {
		i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name && p.UID == f.prototype.UID })
		if f.gone = i < 0; !f.gone {
			f.prototype = &all[i]
		}
		r.Tell(AutoNews{Pool: f.pool, Seen: f.prototype})
	}
}

// unfinished counts the captures for which something is left to do.
func (r *Auto) unfinished() int { return len(r.toDrive()) }

func (r *Auto) toDrive() []*v1alpha1.Prototype {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []*v1alpha1.Prototype
	for _, f := range r.mine {
		if !f.gone && !Settled(f.prototype) {
			left = append(left, f.prototype)
		}
	}
	return left
}

// drive carries the captures on whenever the Lease is to be had, until the context ends.
func (r *Auto) drive(ctx context.Context) {
	d := &driver{cluster: r.Cluster, namespace: r.Namespace, work: r.work, tell: r.hear}
	if err := d.run(ctx); err != nil && ctx.Err() == nil {
		r.tell(AutoNews{NoLease: err})
	}
}

// hear tells who drives, once.
func (r *Auto) hear(n Driving) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Trouble = nil; r.driving == nil || n != *r.driving {
		r.driving = &n
		r.Tell(AutoNews{Driving: &n})
	}
}

// work carries every capture on, each by itself, while the Lease is held.
func (r *Auto) work(ctx context.Context) (done bool) {
	var captures sync.WaitGroup
	defer captures.Wait()
	running := map[string]bool{}
	for ctx.Err() == nil {
		for _, p := range r.toDrive() {
			if running[p.Name] {
				continue
			}
			running[p.Name] = true
			one := &driver{
				cluster: r.Cluster, engine: r.Engine, namespace: r.Namespace, name: p.Name, donor: p.Spec.Donor.NodeName,
				tell: func(n Driving) {
					if n.Trouble != nil {
						r.Log.Error(n.Trouble, "pass did not get through", "prototype", p.Name)
					}
				},
			}
			captures.Go(func() { one.carryOn(ctx) })
		}
		select {
		case <-ctx.Done():
		case <-r.news:
		}
	}
	return false
}

// Results are what came of the pools.
func (r *Auto) Results() []AutoResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	var results []AutoResult
	for _, p := range r.Decider.Results() {
		if !r.ours(p) {
			continue
		}
		result := AutoResult{Result: p}
		for _, f := range r.mine {
			if f.pool == p.Pool {
				result.Capture, result.Gone = f.prototype, f.gone
			}
		}
		results = append(results, result)
	}
	return results
}

// Troubles are sentences about pools that policies name: none of the name, or one of two policies.
func (r *Auto) Troubles() []string {
	var troubles []string
	for name, sentences := range r.Decider.Troubles() {
		if r.Only == "" || r.Only == name {
			troubles = append(troubles, sentences...)
		}
	}
	slices.Sort(troubles)
	return troubles
}
