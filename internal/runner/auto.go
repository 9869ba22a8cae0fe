package runner

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
	"github.com/kamino-dev/kamino/internal/process"
)

// autoInterval is the time between two looks at the captures of a run.
const autoInterval = time.Second

// Auto is one run over policies: Auto decides, runs captures while it holds the Lease, and watches.
type Auto struct {
	Cluster   *cluster.Connection
	Engine    Engine
	Decider   *policy.Decider
	Namespace string
	// Only is the policy to carry out; empty means all policies.
	Only string
	Now  func() time.Time
	Log  logr.Logger
	// Report receives what happens, one event at a time.
	Report func(AutoEvent)

	mu   sync.Mutex
	mine map[string]*followed // by the Prototype's name
	news chan struct{}        // with capacity 1: there is a capture to advance
	// begun are the pools with a capture of this run, running or ended.
	begun map[cloud.PoolID]bool
	// seen is a fingerprint of all captures.
	seen    string
	driving *ProcessName
	away    time.Time
}

// AutoEvent is one event of a run: one field is set, besides the Pool.
type AutoEvent struct {
	Pool policy.PoolRef
	// Begun is the reason why the run follows a capture of the pool.
	Begun string
	// Seen is the current state of the capture.
	Seen *v1alpha1.Prototype
	// Driving names the process that does the work.
	Driving *ProcessName
	// Away is the error of an API server that does not answer; the run waits. NoLease is the reason why the run cannot get
	// the Lease.
	Away, NoLease error
}

// AutoResult is the result for one pool.
type AutoResult struct {
	policy.PoolResult
	// Capture of this run; nil if there is none. Gone reports that a client deleted the capture.
	Capture *v1alpha1.Prototype
	Gone    bool
}

// followed is a capture of this run.
type followed struct {
	pool      policy.PoolRef
	prototype *v1alpha1.Prototype
	gone      bool
}

// Run returns when all captures have ended, or with the cause of the context's end. At the return no pass of the engine
// runs any more, and the Lease is released.
func (r *Auto) Run(ctx context.Context) error {
	r.mine, r.begun, r.news = map[string]*followed{}, map[cloud.PoolID]bool{}, make(chan struct{}, 1)
	r.Decider.Admit = func(policy string, pool policy.PoolRef) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return (r.Only == "" || r.Only == policy) && !r.begun[pool.ID]
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var driving sync.WaitGroup
	started := false
	for {
		done, err := r.checkCaptures(ctx)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case err != nil && !r.mayPass(err):
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
		_ = process.Wait(ctx, autoInterval) // the next look reports the end of the context
	}
}

// mayPass reports whether an error may pass: the API server is away, but not for too long.
func (r *Auto) mayPass(err error) bool {
	if !cluster.Unreachable(err) {
		return false
	}
	if r.away.IsZero() {
		r.away = r.Now()
		r.notify(AutoEvent{Away: err})
	}
	return r.Now().Sub(r.away) < awayTimeout
}

func (r *Auto) notify(n AutoEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Report(n)
}

// checkCaptures reads the state of the captures. After a begin, an end or a returned donor, look decides again. look returns true if
// there is nothing left to wait for.
func (r *Auto) checkCaptures(ctx context.Context) (done bool, err error) {
	all, err := r.Cluster.Prototypes(ctx)
	if err != nil {
		return false, err
	}
	r.away = time.Time{}
	r.update(all)
	acts := slices.ContainsFunc(r.Decider.Results(), func(p policy.PoolResult) bool { return r.isSelected(p) && p.Acts })
	if state := capturesState(all); state != r.seen || acts {
		if _, err := ReadNodes(ctx, r.Cluster, r.Decider.Cloud, r.Decider.Nodes); err != nil {
			return false, err
		}
		if _, err := r.Decider.Pass(ctx); err != nil {
			return false, err
		}
		r.seen = state
		return false, r.adopt(ctx)
	}
	queued := slices.ContainsFunc(r.Decider.Results(), func(p policy.PoolResult) bool { return r.isSelected(p) && p.Queued })
	return !queued && r.unfinished() == 0, nil
}

// capturesState is a fingerprint of the captures, as far as a decision depends on the captures.
func capturesState(all []v1alpha1.Prototype) string {
	state := "captures:\n"
	for i := range all {
		state += policy.State(&all[i]) + "\n"
	}
	return state
}

func (r *Auto) isSelected(p policy.PoolResult) bool { return r.Only == "" || r.Only == p.Policy }

// adopt adds the running captures in the policies' pools to the run.
func (r *Auto) adopt(ctx context.Context) error {
	all, err := r.Cluster.Prototypes(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, result := range r.Decider.Results() {
		name := result.Status.Prototype
		if name == "" || r.mine[name] != nil || !r.isSelected(result) {
			continue
		}
		for i := range all {
			if all[i].Name != name {
				continue
			}
			r.mine[name], r.begun[result.Pool.ID] = &followed{pool: result.Pool, prototype: &all[i]}, true
			r.Report(AutoEvent{Pool: result.Pool, Begun: result.Status.Decision.Message})
		}
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
	return nil
}

// update records the state of the captures, and reports the state.
func (r *Auto) update(all []v1alpha1.Prototype) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, f := range r.mine {
		i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name && p.UID == f.prototype.UID })
		if f.gone = i < 0; !f.gone {
			f.prototype = &all[i]
		}
		r.Report(AutoEvent{Pool: f.pool, Seen: f.prototype})
	}
}

// unfinished counts the captures that are not settled.
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

// drive advances the captures while this process holds the Lease, until the context ends.
func (r *Auto) drive(ctx context.Context) {
	d := &driver{cluster: r.Cluster, namespace: r.Namespace, work: r.work, notify: r.reportHolder}
	if err := d.run(ctx); err != nil && ctx.Err() == nil {
		r.notify(AutoEvent{NoLease: err})
	}
}

// reportHolder reports a change of the Lease's holder, once.
func (r *Auto) reportHolder(n ProcessName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Trouble = nil; r.driving == nil || n != *r.driving {
		r.driving = &n
		r.Report(AutoEvent{Driving: &n})
	}
}

// work advances all captures concurrently while this process holds the Lease.
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
				notify: func(n ProcessName) {
					if n.Trouble != nil {
						r.Log.Error(n.Trouble, "pass failed", "prototype", p.Name)
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

// Results are the results of the pools.
func (r *Auto) Results() []AutoResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	var results []AutoResult
	for _, p := range r.Decider.Results() {
		if !r.isSelected(p) {
			continue
		}
		result := AutoResult{PoolResult: p}
		for _, f := range r.mine {
			if f.pool == p.Pool {
				result.Capture, result.Gone = f.prototype, f.gone
			}
		}
		results = append(results, result)
	}
	return results
}

// Troubles are messages about pools that policies name: an unknown pool, or a pool with two policies.
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
