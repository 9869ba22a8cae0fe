package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
)

// patience is how long an API server may be away before a command that follows a capture gives up.
const patience = 5 * time.Minute

// Redrawing each second is enough to see that the command lives; when a step takes long, its time is read
// in minutes, and a night of redrawing would cost more than the capture itself.
const (
	redrawSoon  = 250 * time.Millisecond
	redrawLater = 5 * time.Second
	// Lines are written when something is heard; this is for when nothing is.
	lineLater = 30 * time.Second
	longStep  = 2 * time.Minute
)

// lastLook is how long the look may take that a command ends with.
const lastLook = 3 * time.Second

// The ways in which following ends, apart from the capture's own.
var (
	errGone    = errors.New("the Prototype was deleted")
	errAway    = errors.New("the API server stayed away")
	errTimeout = errors.New("the time that --timeout gives is over")
)

// follower shows a capture until it is terminal or gone, and drives it whenever it gets the Lease.
type follower struct {
	cluster   *Cluster
	engine    Engine
	namespace string
	prototype *v1alpha1.Prototype
	untilGone bool
	timeout   time.Duration // zero: none
	view      print.View
	live      bool // redraw while nothing happens
	now       func() time.Time

	progress  print.Progress
	passError error
	awaySince time.Time
	awayError error
}

// run returns the Prototype as it was last seen. Its error is errGone, errAway, errTimeout, the context's,
// or one of the API server that waiting does not mend; nil means that the capture is terminal.
func (f *follower) run(ctx context.Context) (*v1alpha1.Prototype, error) {
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, errTimeout)
		defer cancel()
	}
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	sightings, news, driven := make(chan sighting), make(chan driverNews), make(chan error, 1)
	wake, afresh := make(chan struct{}, 1), make(chan struct{}, 1)

	w := &watcher{
		client: f.cluster.Client, name: f.prototype.Name, uid: f.prototype.UID, afresh: afresh,
		report: func(s sighting) { send(working, sightings, s) },
	}
	workers.Go(func() { w.run(working) })
	d := &driver{
		cluster: f.cluster, engine: f.engine, namespace: f.namespace, name: f.prototype.Name,
		donor: f.prototype.Spec.Donor.NodeName, wake: wake,
		tell: func(n driverNews) { send(working, news, n) },
	}
	workers.Go(func() {
		driven <- d.run(working)
		afresh <- struct{}{} // how it ended is in the Prototype: don't wait for the watch to say so
	})
	f.progress.Prototype = f.prototype
	err := f.loop(ctx, sightings, news, driven, wake)
	stop()
	workers.Wait() // the Lease is given back in here
	if err != nil {
		err = f.standing(ctx, w, err)
	}
	f.view.Close(f.progress, f.now())
	return f.prototype, err
}

// standing looks once more before a command that ends early says where the capture stands: its last pass may
// have got further than the watch has told. Once only, and not for long: who interrupts wants an end. It
// returns why following ends, which is another reason if the capture has ended meanwhile.
func (f *follower) standing(ctx context.Context, w *watcher, cause error) error {
	if f.awayError != nil || errors.Is(cause, errGone) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	s := w.look(ctx)
	if s.err != nil {
		return cause
	}
	if done, err := f.see(s); done || err != nil {
		return err
	}
	return cause
}

// send hands a value over unless the receiver is gone.
func send[T any](ctx context.Context, to chan<- T, value T) {
	select {
	case to <- value:
	case <-ctx.Done():
	}
}

func (f *follower) loop(ctx context.Context, sightings <-chan sighting, news <-chan driverNews, driven <-chan error, wake chan<- struct{}) error {
	redraw := time.NewTimer(redrawSoon)
	defer redraw.Stop()
	for {
		f.view.Show(f.progress, f.now())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-sightings:
			if f.awaited(s) {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			if done, err := f.see(s); done || err != nil {
				return err
			}
		case n := <-news:
			f.hear(n)
		case err := <-driven:
			driven = nil
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-redraw.C:
			if err := f.lost(); err != nil {
				return err
			}
			redraw.Reset(f.pause())
		}
	}
}

// see takes a sighting in. It returns true if there is nothing more to wait for.
func (f *follower) see(s sighting) (done bool, err error) {
	switch {
	case s.err != nil && notAllowed(s.err):
		return false, s.err
	case s.err != nil:
		if f.awaySince.IsZero() {
			f.awaySince, f.awayError = f.now(), s.err
		}
		f.tellTrouble()
		return false, f.lost()
	}
	f.awaySince, f.awayError = time.Time{}, nil
	if s.prototype != nil {
		f.prototype = s.prototype
		f.progress.Prototype = s.prototype
	}
	f.tellTrouble()
	switch {
	case s.gone && f.untilGone:
		return true, nil
	case s.gone:
		return false, errGone
	default:
		return !f.untilGone && settled(f.prototype), nil
	}
}

// hear takes in what the driver says.
func (f *follower) hear(n driverNews) {
	f.progress.Driver = n.sentence()
	f.passError = n.Trouble
	f.tellTrouble()
}

// tellTrouble says the worst that is in the way now.
func (f *follower) tellTrouble() {
	stalled := meta.FindStatusCondition(f.prototype.Status.Conditions, v1alpha1.ConditionStalled)
	switch {
	case f.awayError != nil:
		f.progress.Trouble = fmt.Sprintf("the API server has not answered since %s; trying again until %s (%s)",
			clockTime(f.awaySince), clockTime(f.awaySince.Add(patience)), f.awayError)
	case f.passError != nil:
		f.progress.Trouble = explain(f.passError) + "; trying again"
	case stalled != nil && stalled.Status == metav1.ConditionTrue && !f.prototype.Status.Terminal():
		f.progress.Trouble = stalled.Message
	default:
		f.progress.Trouble = ""
	}
}

func clockTime(at time.Time) string { return at.UTC().Format("15:04:05 MST") }

// lost returns errAway if the API server has been away for too long.
func (f *follower) lost() error {
	if f.awaySince.IsZero() || f.now().Sub(f.awaySince) < patience {
		return nil
	}
	return fmt.Errorf("%w for %s: %w", errAway, print.Duration(patience), f.awayError)
}

// pause is how long nothing has to be drawn.
func (f *follower) pause() time.Duration {
	if !f.live {
		return lineLater
	}
	if steps := f.prototype.Status.Steps; len(steps) > 0 && f.now().Sub(steps[len(steps)-1].StartedAt.Time) > longStep {
		return redrawLater
	}
	return redrawSoon
}

// awaited tells whether a sighting holds what the engine may be waiting for: the wish to end the capture.
// Everything else in the object is the engine's own writing.
func (f *follower) awaited(s sighting) bool {
	if s.prototype == nil {
		return false
	}
	return f.prototype.DeletionTimestamp.IsZero() != s.prototype.DeletionTimestamp.IsZero()
}

// settled tells whether nothing is left to do for a capture that has ended: the finalizer goes last, and a
// Prototype that kept it could not be deleted while nobody drives.
func settled(p *v1alpha1.Prototype) bool {
	return p.Status.Terminal() && !slices.Contains(p.Finalizers, v1alpha1.CaptureFinalizer)
}

func succeeded(p *v1alpha1.Prototype) bool { return p.Status.Phase == v1alpha1.PhaseSucceeded }

// touched tells whether a capture got so far that it changed something outside its Prototype.
func touched(p *v1alpha1.Prototype) bool {
	return p.Status.Donor != nil || slices.ContainsFunc(p.Status.Steps, func(s v1alpha1.Step) bool {
		return s.Phase != v1alpha1.PhasePending && s.Phase != v1alpha1.PhasePreflight
	})
}
