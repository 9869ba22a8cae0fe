package cli

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

// watchPrototype reports the Prototype now and whenever it changes, until the context ends. An object of
// the same name with another UID is another Prototype: the one that was meant is gone.
func watchPrototype(ctx context.Context, c client.WithWatch, name string, uid types.UID, report func(sighting)) {
	for ctx.Err() == nil {
		err := watchOnce(ctx, c, name, uid, report)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			report(sighting{err: err})
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

func watchOnce(ctx context.Context, c client.WithWatch, name string, uid types.UID, report func(sighting)) error {
	seen := &v1alpha1.Prototype{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, seen)
	if apierrors.IsNotFound(err) || err == nil && seen.UID != uid {
		report(sighting{gone: true})
		return nil
	}
	if err != nil {
		return err
	}
	report(sighting{prototype: seen})

	timeout := int64(rewatch / time.Second)
	watching, cancel := context.WithTimeout(ctx, rewatch+10*time.Second)
	defer cancel()
	events, err := c.Watch(watching, &v1alpha1.PrototypeList{}, client.MatchingFields{"metadata.name": name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: seen.ResourceVersion, TimeoutSeconds: &timeout}})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-watching.Done():
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if err := reportEvent(event, name, uid, report); err != nil {
				return err
			}
		}
	}
}

func reportEvent(event apiwatch.Event, name string, uid types.UID, report func(sighting)) error {
	if event.Type == apiwatch.Error {
		if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return fmt.Errorf("watch of prototype %s: %w", name, err)
		}
		return nil
	}
	p, ok := event.Object.(*v1alpha1.Prototype)
	if !ok || p.Name != name {
		return nil
	}
	report(sighting{prototype: p, gone: event.Type == apiwatch.Deleted || p.UID != uid})
	return nil
}
