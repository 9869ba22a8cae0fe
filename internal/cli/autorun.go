package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/policy"
)

// autoLook is the time between two looks at the captures of a run.
const autoLook = time.Second

// autoRun is one pass over policies: deciding, driving whenever the Lease is to be had, and watching.
type autoRun struct {
	s       *session
	decider *policy.Decider
	only    string // policy; all if empty

	mu   sync.Mutex
	mine map[string]*followed // by the Prototype's name
	news chan struct{}        // of one place: there is something to drive
	// begun are the pools that had their capture of this run, or have it now.
	begun map[cloud.PoolID]bool
	// seen tells one state of all captures from another.
	seen   string
	driver string
	away   time.Time
}

// followed is a capture of this run.
type followed struct {
	pool      policy.Pool
	prototype *v1alpha1.Prototype
	view      *print.Lines
	gone      bool
}

func newAutoRun(s *session, decider *policy.Decider, only string) *autoRun {
	r := &autoRun{
		s: s, decider: decider, only: only, mine: map[string]*followed{}, begun: map[cloud.PoolID]bool{}, news: make(chan struct{}, 1),
	}
	decider.Admit = func(policy string, pool policy.Pool) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return (only == "" || only == policy) && !r.begun[pool.ID]
	}
	return r
}

// run returns when nothing is left to wait for, or with what stopped it. Either way no pass of the engine runs
// any more and the Lease is given back.
func (r *autoRun) run(ctx context.Context, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
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
func (r *autoRun) patient(err error) bool {
	if !unreachable(err) {
		return false
	}
	if r.away.IsZero() {
		r.away = r.s.Now()
		r.s.note("%s; trying again", explain(err))
	}
	return r.s.Now().Sub(r.away) < patience
}

// look sees how far the captures are, and decides whenever one of them began, ended or gave its node back. It
// returns true if there is nothing more to wait for.
func (r *autoRun) look(ctx context.Context) (done bool, err error) {
	all, err := r.s.cluster.prototypes(ctx)
	if err != nil {
		return false, err
	}
	r.away = time.Time{}
	r.see(all)
	if state := capturesState(all); state != r.seen {
		if err := r.s.readNodes(ctx, r.decider.Nodes); err != nil {
			return false, err
		}
		if _, err := r.decider.Pass(ctx); err != nil {
			return false, err
		}
		r.seen = state
		return false, r.adopt(ctx)
	}
	queued := slices.ContainsFunc(r.decider.Results(), func(p policy.Result) bool { return r.ours(p) && p.Queued })
	return !queued && r.unfinished() == 0, nil
}

// capturesState tells one state of the captures from another, as far as a decision depends on it.
func capturesState(all []v1alpha1.Prototype) string {
	var state bytes.Buffer
	for i := range all {
		p := &all[i]
		fmt.Fprintf(&state, "%s %s %t %t\n", p.Name, p.UID, p.Status.Terminal(), policy.HoldsDonor(p))
	}
	return "captures:\n" + state.String()
}

func (r *autoRun) ours(p policy.Result) bool { return r.only == "" || r.only == p.Policy }

// adopt takes on the captures that the decider knows to be in flight in the policies' pools.
func (r *autoRun) adopt(ctx context.Context) error {
	all, err := r.s.cluster.prototypes(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, result := range r.decider.Results() {
		name := result.Status.Prototype
		if name == "" || r.mine[name] != nil || !r.ours(result) {
			continue
		}
		for i := range all {
			if all[i].Name != name {
				continue
			}
			view := print.NewLines(poolWriter{r.s.Err, result.Pool.Name})
			r.mine[name], r.begun[result.Pool.ID] = &followed{pool: result.Pool, prototype: &all[i], view: view}, true
			_, _ = fmt.Fprintf(r.s.Err, "%s  %s: %s\n", r.s.Now().UTC().Format(time.RFC3339), result.Pool.Name, result.Status.Decision.Message)
		}
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
	return nil
}

// see takes in how far the captures are, and says what is new.
func (r *autoRun) see(all []v1alpha1.Prototype) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, f := range r.mine {
		i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name && p.UID == f.prototype.UID })
		if f.gone = i < 0; !f.gone {
			f.prototype = &all[i]
		}
		f.view.Show(print.Progress{Prototype: f.prototype}, r.s.Now())
	}
}

// unfinished counts the captures for which something is left to do.
func (r *autoRun) unfinished() int { return len(r.toDrive()) }

func (r *autoRun) toDrive() []*v1alpha1.Prototype {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []*v1alpha1.Prototype
	for _, f := range r.mine {
		if !f.gone && !settled(f.prototype) {
			left = append(left, f.prototype)
		}
	}
	return left
}

// drive carries the captures on whenever the Lease is to be had, until the context ends.
func (r *autoRun) drive(ctx context.Context) {
	d := &driver{cluster: r.s.cluster, namespace: r.s.options.Namespace, work: r.work, tell: r.hear}
	if err := d.run(ctx); err != nil && ctx.Err() == nil {
		r.s.note("the Lease can't be had: %s", explain(err))
	}
}

// hear says who drives, once.
func (r *autoRun) hear(n driverNews) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sentence := n.sentence(); sentence != r.driver {
		r.driver = sentence
		_, _ = fmt.Fprintf(r.s.Err, "%s  %s\n", r.s.Now().UTC().Format(time.RFC3339), sentence)
	}
}

// work carries every capture on, each by itself, while the Lease is held.
func (r *autoRun) work(ctx context.Context) (done bool) {
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
				cluster: r.s.cluster, engine: r.s.engine, namespace: r.s.options.Namespace, name: p.Name, donor: p.Spec.Donor.NodeName,
				tell: func(n driverNews) {
					if n.Trouble != nil {
						r.s.options.Log.Error(n.Trouble, "pass did not get through", "prototype", p.Name)
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

// results are what came of the pools.
func (r *autoRun) results() print.AutoReport {
	report := print.AutoReport{Pools: []print.AutoResult{}}
	for name, sentences := range r.decider.Troubles() {
		if r.only == "" || r.only == name {
			report.Troubles = append(report.Troubles, sentences...)
		}
	}
	slices.Sort(report.Troubles)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.decider.Results() {
		if r.ours(p) {
			report.Pools = append(report.Pools, r.result(p))
		}
	}
	return report
}

func (r *autoRun) result(p policy.Result) print.AutoResult {
	result := print.AutoResult{Pool: p.Pool.Name, Policy: p.Policy, Result: print.AutoNothing, Status: p.Status}
	if d := p.Status.Decision; d != nil {
		result.Reason, result.Message = d.Reason, d.Message
	}
	for _, f := range r.mine {
		if f.pool == p.Pool {
			return r.captured(result, f)
		}
	}
	switch {
	case p.Queued:
		result.Result = print.AutoWaiting
	case p.Refused:
		result.Result, result.Code = print.AutoRefused, refusedCode(p.Err)
		if p.Err == nil && permissionReason(result.Reason) {
			result.Code = ExitNotAllowed
		}
	}
	return result
}

// captured is the result of a capture of this run.
func (r *autoRun) captured(result print.AutoResult, f *followed) print.AutoResult {
	p := f.prototype
	result.Prototype, result.Version, result.Donor = p.Name, p.Spec.Version, p.Spec.Donor.NodeName
	result.Took = print.Duration(wholeTime(p))
	result.Reason, result.Message = "", ""
	switch failure := p.Status.Failure; {
	case f.gone:
		result.Result, result.Code = print.AutoFailed, ExitFailed
		result.Reason, result.Message = "Cancelled", fmt.Sprintf("prototype %s was deleted by somebody; the node was given back", p.Name)
	case succeeded(p):
		result.Result = print.AutoCaptured
	case !p.Status.Terminal():
		result.Result, result.Message = print.AutoWaiting, fmt.Sprintf("prototype %s stands at %s", p.Name, phase(p))
	default:
		result.Result, result.Code = print.AutoFailed, ExitFailed
		if failure != nil {
			result.Reason, result.Message = failure.Reason, failure.Message
		}
		if !touched(p) {
			result.Result, result.Code = print.AutoRefused, ExitRefused
			if permissionReason(result.Reason) {
				result.Code = ExitNotAllowed
			}
		}
	}
	return result
}

// poolWriter puts the pool's name behind the time of each line.
type poolWriter struct {
	out  io.Writer
	pool string
}

// Write implements io.Writer.
func (w poolWriter) Write(text []byte) (int, error) {
	at, rest, found := bytes.Cut(text, []byte("  "))
	if !found {
		return w.out.Write(text)
	}
	if _, err := fmt.Fprintf(w.out, "%s  %s: %s", at, w.pool, rest); err != nil {
		return 0, err
	}
	return len(text), nil
}
