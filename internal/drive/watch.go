package drive

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
)

const (
	// rewatch is how long one watch lasts before the object is looked at afresh: the longest that a
	// connection which died without a word can hide news.
	rewatch = 2 * time.Minute
	// lookAgain is the delay after a look that failed.
	lookAgain = 2 * time.Second
)

// sighting is one look at a Prototype: the object, or that it is gone, or that the look failed.
type sighting struct {
	prototype *v1alpha1.Prototype
	gone      bool
	err       error
}

// watcher reports a Prototype now and whenever it changes. An object of the same name with another UID is
// another Prototype: the one that was meant is gone.
type watcher struct {
	client client.WithWatch
	name   string
	uid    types.UID
	// afresh makes it look at once, without waiting for the watch to tell.
	afresh <-chan struct{}
	report func(sighting)
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			continue // the watch was too far behind: the next look is where it starts from
		}
		w.report(sighting{err: err})
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// once looks, and watches from there until the watch ends or a fresh look is wanted.
func (w *watcher) once(ctx context.Context) error {
	now := w.look(ctx)
	if now.err != nil {
		return now.err
	}
	w.report(now)
	if now.gone {
		w.rest(ctx) // nothing will change: it is up to the receiver to end this
		return nil
	}
	timeout := int64(rewatch / time.Second)
	watching, cancel := context.WithTimeout(ctx, rewatch+10*time.Second)
	defer cancel()
	events, err := w.client.Watch(watching, &v1alpha1.PrototypeList{}, client.MatchingFields{"metadata.name": w.name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: now.prototype.ResourceVersion, TimeoutSeconds: &timeout}})
	if err != nil {
		return err
	}
	defer events.Stop()
	return w.listen(watching, events)
}

// look looks once.
func (w *watcher) look(ctx context.Context) sighting {
	seen := &v1alpha1.Prototype{}
	err := w.client.Get(ctx, client.ObjectKey{Name: w.name}, seen)
	switch {
	case apierrors.IsNotFound(err), err == nil && seen.UID != w.uid:
		return sighting{gone: true}
	case err != nil:
		return sighting{err: err}
	default:
		return sighting{prototype: seen}
	}
}

func (w *watcher) listen(ctx context.Context, events apiwatch.Interface) error {
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.afresh:
			return nil
		case event, open := <-events.ResultChan():
			switch {
			case !open && time.Since(began) < lookAgain:
				w.rest(ctx) // a server that ends every watch at once must not be asked all the time
				return nil
			case !open:
				return nil
			}
			if err := w.tell(event); err != nil {
				return err
			}
		}
	}
}

// rest waits until it is time for the next look.
func (w *watcher) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-w.afresh:
	case <-time.After(lookAgain):
	}
}

func (w *watcher) tell(event apiwatch.Event) error {
	if event.Type == apiwatch.Error {
		return fmt.Errorf("watch of prototype %s: %w", w.name, apierrors.FromObject(event.Object))
	}
	p, ok := event.Object.(*v1alpha1.Prototype)
	if !ok || p.Name != w.name {
		return nil
	}
	w.report(sighting{prototype: p, gone: event.Type == apiwatch.Deleted || p.UID != w.uid})
	return nil
}
