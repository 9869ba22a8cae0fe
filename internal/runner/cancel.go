package runner

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// Named returns the Prototype with this name, or nil.
func Named(all []v1alpha1.Prototype, name string) *v1alpha1.Prototype {
	i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Cancel deletes a Prototype whose capture has not ended. The process with the Lease then returns the node and cleans up.
// Cancel returns a Prototype in deletion unchanged. For an unknown or ended capture, the error is a cluster.Refused.
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
		return nil, cluster.Refusef("Prototype %s does not exist, and nothing was changed: run `kubectl get prototypes` to list the Prototypes", name)
	case p.Status.Terminal() && p.DeletionTimestamp.IsZero():
		return nil, cluster.Refusef("the capture of Prototype %s has ended (%s), and nothing was changed: "+
			"run `kubectl delete prototype %s` to remove the record", name, p.Status.Phase, name)
	}
	// The UID is a precondition: a new Prototype with the same name is another capture.
	err = c.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete prototype %s: %w", name, err)
	}
	return p, nil
}

// NodeNow reads a node and returns the end of a sentence about the node.
func NodeNow(ctx context.Context, c *cluster.Connection, name string) string {
	n, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "has no Node any more"
	case err != nil:
		return "could not be read"
	case n.Annotations[v1alpha1.ReservationAnnotation] != "":
		return fmt.Sprintf("is still reserved: run `kamino reservations` to see the holder, or `kamino return-node %s` to release the node", name)
	case nodestate.Ready(n):
		return "is Ready"
	}
	return "is not Ready"
}
