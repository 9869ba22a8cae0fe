package drive

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// Named is the Prototype of that name, or nil.
func Named(all []v1alpha1.Prototype, name string) *v1alpha1.Prototype {
	i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Cancel marks a Prototype for deletion whose capture has not ended, which has whoever drives give its node back and leave
// nothing behind. One that is marked already is returned as it is. What is not there, or has ended, is a cluster.Refused.
func Cancel(ctx context.Context, c *cluster.Connection, name string) (*v1alpha1.Prototype, error) {
	all, err := c.Prototypes(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.CheckClock(); err != nil {
		return nil, err
	}
	p := Named(all, name)
	switch {
	case p == nil:
		return nil, cluster.Refusef("there is no Prototype %s, and nothing was changed: `kubectl get prototypes` lists them", name)
	case p.Status.Terminal() && p.DeletionTimestamp.IsZero():
		return nil, cluster.Refusef("the capture of Prototype %s has ended (%s), and nothing was changed: there is nothing to stop; "+
			"`kubectl delete prototype %s` removes the record", name, p.Status.Phase, name)
	}
	// By its UID: a namesake that somebody made meanwhile is another capture.
	err = c.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete prototype %s: %w", name, err)
	}
	return p, nil
}

// NodeNow says what a node is, from a look: the end of a sentence that names it.
func NodeNow(ctx context.Context, c *cluster.Connection, name string) string {
	n, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "has no Node any more"
	case err != nil:
		return "could not be looked at"
	case n.Annotations[v1alpha1.ReservationAnnotation] != "":
		return fmt.Sprintf("is still held: `kamino reservations` tells by whom, `kamino release-node %s` gives it back", name)
	case nodestate.Ready(n):
		return "is Ready"
	}
	return "is not Ready"
}
