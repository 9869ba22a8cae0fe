package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/wording"
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
	// ErrGone: somebody deleted the Prototype.
	ErrGone = errors.New("the Prototype was deleted")
	// ErrAway: waited for too long.
	ErrAway = errors.New("the API server stayed away")
	// ErrTimeout: the time that was given is over; the capture goes on.
	ErrTimeout = errors.New("the time that --timeout gives is over")
)

// Progress is what is known of a capture at one moment.
type Progress struct {
	// Prototype as it was last seen; nil before the first look.
	Prototype *v1alpha1.Prototype
	// Driving is who does the work, with the trouble of its last pass; nil while nothing is known.
	Driving *Driving
	// Away is what the API server's silence looks like; nil if it answers. It began at Since, and is waited for until Until.
	Away         error
	Since, Until time.Time
}

// View shows a capture while it goes on.
type View interface {
	// Show shows the progress as of now. Showing the same again is harmless.
	Show(progress Progress, now time.Time)
	// Close shows the progress for the last time.
	Close(progress Progress, now time.Time)
}

// Follower shows a capture until it is terminal or gone, and drives it whenever it gets the Lease.
type Follower struct {
	Cluster   *cluster.Connection
	Engine    Engine
	Namespace string
	Prototype *v1alpha1.Prototype
	// UntilGone follows a Prototype that is being deleted until it is gone.
	UntilGone bool
	View      View
	// Live redraws while nothing happens.
	Live bool
	Now  func() time.Time

	progress Progress
	// seen is the resourceVersion of the Prototype as it was last seen.
	seen atomic.Value
}

// Run returns the Prototype as it was last seen. Its error is ErrGone, ErrAway, the cause of the context's end, or one of the
// API server that waiting does not mend; nil means that the capture is terminal.
func (f *Follower) Run(ctx context.Context) (*v1alpha1.Prototype, error) {
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	sightings, news, driven := make(chan sighting), make(chan Driving), make(chan error, 1)
	wake, afresh := make(chan struct{}, 1), make(chan struct{}, 1)

	if engine, is := f.Engine.(*capture.Engine); is {
		engine.Watched = f.watched
	}
	w := &watcher{
		client: f.Cluster.Client, name: f.Prototype.Name, uid: f.Prototype.UID, afresh: afresh,
		report: func(s sighting) { send(working, sightings, s) },
	}
	workers.Go(func() { w.run(working) })
	d := &driver{
		cluster: f.Cluster, engine: f.Engine, namespace: f.Namespace, name: f.Prototype.Name,
		donor: f.Prototype.Spec.Donor.NodeName, wake: wake,
		tell: func(n Driving) { send(working, news, n) },
	}
	workers.Go(func() {
		driven <- d.run(working)
		afresh <- struct{}{} // how it ended is in the Prototype: don't wait for the watch to say so
	})
	f.progress.Prototype = f.Prototype
	err := f.loop(ctx, sightings, news, driven, wake)
	stop()
	workers.Wait() // the Lease is given back in here
	if err != nil {
		err = f.standing(ctx, w, err)
	}
	f.View.Close(f.progress, f.Now())
	return f.Prototype, err
}

// standing looks once more before a command that ends early says where the capture stands: its last pass may
// have got further than the watch has told. Once only, and not for long: who interrupts wants an end. It
// returns why following ends, which is another reason if the capture has ended meanwhile.
func (f *Follower) standing(ctx context.Context, w *watcher, cause error) error {
	if f.progress.Away != nil || errors.Is(cause, ErrGone) {
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

func (f *Follower) loop(ctx context.Context, sightings <-chan sighting, news <-chan Driving, driven <-chan error, wake chan<- struct{}) error {
	redraw := time.NewTimer(redrawSoon)
	defer redraw.Stop()
	for {
		f.View.Show(f.progress, f.Now())
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
			f.progress.Driving = &n
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
func (f *Follower) see(s sighting) (done bool, err error) {
	switch {
	case s.err != nil && cluster.NotAllowed(s.err):
		return false, s.err
	case s.err != nil:
		if f.progress.Away == nil {
			f.progress.Away, f.progress.Since, f.progress.Until = s.err, f.Now(), f.Now().Add(patience)
		}
		return false, f.lost()
	}
	f.progress.Away, f.progress.Since, f.progress.Until = nil, time.Time{}, time.Time{}
	if s.prototype != nil {
		f.seen.Store(s.prototype.ResourceVersion)
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

// watched returns the resourceVersion that the watch has seen last, for capture.Engine; empty before the first.
func (f *Follower) watched(context.Context, string) string {
	version, _ := f.seen.Load().(string)
	return version
}

// lost returns ErrAway if the API server has been away for too long.
func (f *Follower) lost() error {
	if f.progress.Away == nil || f.Now().Before(f.progress.Until) {
		return nil
	}
	return fmt.Errorf("%w for %s: %w", ErrAway, wording.Duration(patience), f.progress.Away)
}

// pause is how long nothing has to be drawn.
func (f *Follower) pause() time.Duration {
	if !f.Live {
		return lineLater
	}
	if steps := f.Prototype.Status.Steps; len(steps) > 0 && f.Now().Sub(steps[len(steps)-1].StartedAt.Time) > longStep {
		return redrawLater
	}
	return redrawSoon
}

// awaited tells whether a sighting holds what the engine may be waiting for: the wish to end the capture.
// Everything else in the object is the engine's own writing.
func (f *Follower) awaited(s sighting) bool {
	if s.prototype == nil {
		return false
	}
	return f.Prototype.DeletionTimestamp.IsZero() != s.prototype.DeletionTimestamp.IsZero()
}

// Settled tells whether nothing is left to do for a capture that has ended: the finalizer goes last, and a
// Prototype that kept it could not be deleted while nobody drives.
func Settled(p *v1alpha1.Prototype) bool {
	return p.Status.Terminal() && !slices.Contains(p.Finalizers, v1alpha1.CaptureFinalizer)
}

// Succeeded tells whether a capture ended well.
func Succeeded(p *v1alpha1.Prototype) bool { return p.Status.Phase == v1alpha1.PhaseSucceeded }

// Touched tells whether a capture got so far that it changed something outside its Prototype.
func Touched(p *v1alpha1.Prototype) bool {
	return p.Status.Donor != nil || slices.ContainsFunc(p.Status.Steps, func(s v1alpha1.Step) bool {
		return s.Phase != v1alpha1.PhasePending && s.Phase != v1alpha1.PhasePreflight
	})
}
