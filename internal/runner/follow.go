package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/wording"
)

// awayTimeout is the time after which a command gives up an API server that does not answer.
const awayTimeout = 5 * time.Minute

// A redraw per second shows that the command is alive. In a long step, minutes are precise enough, and a night of fast
// redraws would cost more than the capture.
const (
	redrawSoon  = 250 * time.Millisecond
	redrawLater = 5 * time.Second
	// lineInterval is the time after which a line appears without news.
	lineInterval = 30 * time.Second
	longStep     = 2 * time.Minute
)

// lastLookTimeout limits the last look of a command.
const lastLookTimeout = 3 * time.Second

// Errors that end following before the end of the capture.
var (
	// ErrGone: a client deleted the Prototype.
	ErrGone = errors.New("the Prototype was deleted")
	// ErrAway: the API server did not answer for too long.
	ErrAway = errors.New("the API server did not answer")
	// ErrTimeout: the time of --timeout is over; the capture continues.
	ErrTimeout = errors.New("the time of --timeout is over")
)

// Progress is the known state of a capture.
type Progress struct {
	// Prototype is the last state of the Prototype; nil before the first look.
	Prototype *v1alpha1.Prototype
	// Driving names the process that does the work, with the error of its last pass; nil if unknown.
	Driving *ProcessName
	// Away is the error of the API server; nil if the API server answers. Since is the time of the first error, and Until
	// the end of the wait.
	Away         error
	Since, Until time.Time
}

// View shows a running capture.
type View interface {
	// Show shows the progress as of now. A repeated call with the same progress is harmless.
	Show(progress Progress, now time.Time)
	// Close shows the progress for the last time.
	Close(progress Progress, now time.Time)
}

// Follower shows a capture until the capture is terminal or gone, and advances the capture while it holds the Lease.
type Follower struct {
	Cluster   *cluster.Connection
	Engine    Engine
	Namespace string
	Prototype *v1alpha1.Prototype
	// UntilGone follows a Prototype in deletion until the object is gone.
	UntilGone bool
	View      View
	// Live redraws without news.
	Live bool
	Now  func() time.Time

	progress Progress
}

// Run returns the last state of the Prototype. The error is ErrGone, ErrAway, the cause of the context's end, or a
// permanent error of the API server. Nil means that the capture is terminal.
func (f *Follower) Run(ctx context.Context) (*v1alpha1.Prototype, error) {
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	observations, news, driven := make(chan observation), make(chan ProcessName), make(chan error, 1)
	wake, relook := make(chan struct{}, 1), make(chan struct{}, 1)

	w := &watcher{
		client: f.Cluster.Client, name: f.Prototype.Name, uid: f.Prototype.UID, relook: relook,
		report: func(s observation) { send(working, observations, s) },
	}
	workers.Go(func() { w.run(working) })
	d := &driver{
		cluster: f.Cluster, engine: f.Engine, namespace: f.Namespace, name: f.Prototype.Name,
		donor: f.Prototype.Spec.Donor.NodeName, wake: wake,
		notify: func(n ProcessName) { send(working, news, n) },
	}
	workers.Go(func() {
		driven <- d.run(working)
		relook <- struct{}{} // the Prototype holds the result: do not wait for the watch
	})
	f.progress.Prototype = f.Prototype
	err := f.loop(ctx, observations, news, driven, wake)
	stop()
	workers.Wait() // releases the Lease
	if err != nil {
		err = f.finalLook(ctx, w, err)
	}
	f.View.Close(f.progress, f.Now())
	return f.Prototype, err
}

// finalLook looks briefly once more before a command ends early: the last pass may be ahead of the watch. finalLook returns the
// reason of the end, which differs if the capture has ended meanwhile.
func (f *Follower) finalLook(ctx context.Context, w *watcher, cause error) error {
	if f.progress.Away != nil || errors.Is(cause, ErrGone) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookTimeout)
	defer cancel()
	s := w.readPrototype(ctx)
	if s.err != nil {
		return cause
	}
	if done, err := f.update(s); done || err != nil {
		return err
	}
	return cause
}

// send passes a value to the receiver, unless the context ends.
func send[T any](ctx context.Context, to chan<- T, value T) {
	select {
	case to <- value:
	case <-ctx.Done():
	}
}

func (f *Follower) loop(ctx context.Context, observations <-chan observation, news <-chan ProcessName, driven <-chan error, wake chan<- struct{}) error {
	redraw := time.NewTimer(redrawSoon)
	defer redraw.Stop()
	for {
		f.View.Show(f.progress, f.Now())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-observations:
			if f.awaited(s) {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			if done, err := f.update(s); done || err != nil {
				return err
			}
		case n := <-news:
			f.progress.Driving = &n
		case err := <-driven:
			driven = nil
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-redraw.C:
			if err := f.checkAway(); err != nil {
				return err
			}
			redraw.Reset(f.pause())
		}
	}
}

// update records an observation. update returns true if there is nothing left to wait for.
func (f *Follower) update(s observation) (done bool, err error) {
	switch {
	case s.err != nil && cluster.NotAllowed(s.err):
		return false, s.err
	case s.err != nil:
		if f.progress.Away == nil {
			f.progress.Away, f.progress.Since, f.progress.Until = s.err, f.Now(), f.Now().Add(awayTimeout)
		}
		return false, f.checkAway()
	}
	f.progress.Away, f.progress.Since, f.progress.Until = nil, time.Time{}, time.Time{}
	if s.prototype != nil {
		f.Prototype = s.prototype
		f.progress.Prototype = s.prototype
	}
	switch {
	case s.gone && f.UntilGone:
		return true, nil
	case s.gone:
		return false, ErrGone
	default:
		return !f.UntilGone && Settled(f.Prototype), nil
	}
}

// checkAway returns ErrAway if the API server has been away for too long.
func (f *Follower) checkAway() error {
	if f.progress.Away == nil || f.Now().Before(f.progress.Until) {
		return nil
	}
	return fmt.Errorf("%w for %s: %w", ErrAway, wording.Duration(awayTimeout), f.progress.Away)
}

// pause is the time until the next redraw.
func (f *Follower) pause() time.Duration {
	if !f.Live {
		return lineInterval
	}
	if steps := f.Prototype.Status.Steps; len(steps) > 0 && f.Now().Sub(steps[len(steps)-1].StartedAt.Time) > longStep {
		return redrawLater
	}
	return redrawSoon
}

// awaited reports whether an observation is an event that the engine waits for: the request to end the capture. The engine
// itself writes all other changes.
func (f *Follower) awaited(s observation) bool {
	if s.prototype == nil {
		return false
	}
	return f.Prototype.DeletionTimestamp.IsZero() != s.prototype.DeletionTimestamp.IsZero()
}

// Settled reports that an ended capture needs no further pass: the engine has removed the finalizer. With the finalizer,
// the Prototype could not be deleted without a running engine.
func Settled(p *v1alpha1.Prototype) bool {
	return p.Status.Terminal() && !slices.Contains(p.Finalizers, v1alpha1.CaptureFinalizer)
}

// Succeeded reports whether a capture ended with success.
func Succeeded(p *v1alpha1.Prototype) bool { return p.Status.Phase == v1alpha1.PhaseSucceeded }

// Touched reports whether a capture has changed anything besides its Prototype.
func Touched(p *v1alpha1.Prototype) bool {
	return p.Status.Donor != nil || slices.ContainsFunc(p.Status.Steps, func(s v1alpha1.Step) bool {
		return s.Phase != v1alpha1.PhasePending && s.Phase != v1alpha1.PhasePreflight
	})
}
