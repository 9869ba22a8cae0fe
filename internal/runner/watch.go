package runner

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/process"
)

const (
	// watchDuration is the duration of one watch, and so the longest time that a dead connection can hide changes.
	watchDuration = 2 * time.Minute
	// retryDelay is the delay after a failed look.
	retryDelay = 2 * time.Second
)

// observation is one look at a Prototype: the object, its absence, or the error of the look.
type observation struct {
	prototype *v1alpha1.Prototype
	gone      bool
	err       error
}

// watcher reports a Prototype at the start and after each change. An object with the same name and another UID is another
// Prototype, so the watched Prototype is gone.
type watcher struct {
	client client.WithWatch
	name   string
	uid    types.UID
	// relook requests a look at once, without an event of the watch.
	relook <-chan struct{}
	report func(observation)
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			continue // the watch was too old: the next watch begins with a new look
		}
		w.report(observation{err: err})
		if process.Wait(ctx, retryDelay) != nil {
			return
		}
	}
}

// once looks, and watches until the watch ends or a new look is requested.
func (w *watcher) once(ctx context.Context) error {
	now := w.readPrototype(ctx)
	if now.err != nil {
		return now.err
	}
	w.report(now)
	if now.gone {
		w.rest(ctx) // no change will follow; the receiver ends this watch
		return nil
	}
	timeout := int64(watchDuration / time.Second)
	watching, cancel := context.WithTimeout(ctx, watchDuration+10*time.Second)
	defer cancel()
	events, err := w.client.Watch(watching, &v1alpha1.PrototypeList{}, client.MatchingFields{"metadata.name": w.name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: now.prototype.ResourceVersion, TimeoutSeconds: &timeout}})
	if err != nil {
		return err
	}
	defer events.Stop()
	return w.listen(watching, events)
}

// readPrototype reads the Prototype once.
func (w *watcher) readPrototype(ctx context.Context) observation {
	seen := &v1alpha1.Prototype{}
	err := w.client.Get(ctx, client.ObjectKey{Name: w.name}, seen)
	switch {
	case apierrors.IsNotFound(err), err == nil && seen.UID != w.uid:
		return observation{gone: true}
	case err != nil:
		return observation{err: err}
	default:
		return observation{prototype: seen}
	}
}

func (w *watcher) listen(ctx context.Context, events apiwatch.Interface) error {
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.relook:
			return nil
		case event, open := <-events.ResultChan():
			switch {
			case !open && time.Since(began) < retryDelay:
				w.rest(ctx) // a server may end every watch at once: avoid a busy loop
				return nil
			case !open:
				return nil
			}
			if err := w.notify(event); err != nil {
				return err
			}
		}
	}
}

// rest waits until the next look is due.
func (w *watcher) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-w.relook:
	case <-time.After(retryDelay):
	}
}

func (w *watcher) notify(event apiwatch.Event) error {
	if event.Type == apiwatch.Error {
		return fmt.Errorf("watch of prototype %s: %w", w.name, apierrors.FromObject(event.Object))
	}
	p, ok := event.Object.(*v1alpha1.Prototype)
	if !ok || p.Name != w.name {
		return nil
	}
	w.report(observation{prototype: p, gone: event.Type == apiwatch.Deleted || p.UID != w.uid})
	return nil
}
