package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/reservations"
)

// lookPause is the time between two looks at a node that is awaited.
const lookPause = 2 * time.Second

// Reservations finds the nodes that are held, and gives back those that nobody else gives back.
type Reservations struct {
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	Engine  Engine
	// Namespace of the Leases that say who holds which node: Kamino's own. DefaultNamespace if empty.
	Namespace string
	Now       func() time.Time
	// Trouble is told of an error that passes. Nil for nobody.
	Trouble func(error)
}

// Held is what is held, and what is left of captures that are gone.
type Held struct {
	Nodes []reservations.Node
	// Pools of the cluster's nodes, in order.
	Pools []cloud.PoolID
	Left  []reservations.Leftover
	// LeftError is why Left can't be told; nil if it can.
	LeftError error
	// LeaseError is why it can't be told which reservations a Lease confirms; nil if it can.
	LeaseError error
}

// Look finds it, and changes nothing. A cluster that has no Prototypes has nodes all the same.
func (h *Reservations) Look(ctx context.Context) (Held, error) {
	all, err := h.Cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return Held{}, err
	}
	return h.LookWith(ctx, all, func(*corev1.Node, cloud.PoolID) {})
}

// LookWith is Look for a caller that has listed the Prototypes. It shows each node with its pool, so that the caller need not list the
// nodes either; the pool is empty where a node belongs to none.
func (h *Reservations) LookWith(ctx context.Context, all []v1alpha1.Prototype, show func(*corev1.Node, cloud.PoolID)) (Held, error) {
	captures, seen := reservations.CapturesOf(all), Held{Nodes: []reservations.Node{}}
	var leases []node.Lease
	leases, seen.LeaseError = h.reservations().All(ctx)
	err := membership.Each(ctx, h.Cluster.Kube, h.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		show(n, of.Pool)
		found, isHeld := captures.Of(n)
		if seen.LeaseError == nil {
			found, isHeld = captures.Confirm(n, found, isHeld, node.ReservationOf(leases, n))
		}
		if isHeld {
			seen.Nodes = append(seen.Nodes, found)
		}
		if of.Pool != "" && !slices.Contains(seen.Pools, of.Pool) {
			seen.Pools = append(seen.Pools, of.Pool)
		}
		return nil
	})
	if err != nil {
		return seen, err
	}
	reservations.Sort(seen.Nodes)
	slices.SortFunc(seen.Pools, func(a, b cloud.PoolID) int { return cmp.Compare(a, b) })
	seen.Left, seen.LeftError = h.Engine.Leftovers(ctx, seen.Pools)
	return seen, nil
}

// Release gives a node back that is held by a replacement, or by a capture that is gone, and waits until it is Ready; one
// that cannot return it has removed. Of a node whose reservation no Lease confirms only the Node is changed: the reservation and the
// annotations of a hold go, and it is uncordoned. It returns what the node is at the end. A context that ends before the node is given back is an error; the same call again
// goes on.
func (h *Reservations) Release(ctx context.Context, n reservations.Node) (v1alpha1.DonorState, error) {
	var err error
	switch n.State {
	case reservations.ByReplacement:
		err = h.takeFromReplacement(ctx, n.Name, n.Holder)
	case reservations.Unreadable, reservations.Stripped, reservations.Unconfirmed:
		err = h.clear(ctx, n.Name)
	case reservations.Orphaned, reservations.ByCapture, reservations.ByUnknown:
		if n.InService { // the person has decided: from here on it takes no pods
			err = h.cordon(ctx, n.Name)
		}
		if err == nil {
			err = h.passes(ctx, n.Name, n.Holder)
		}
	}
	if err != nil {
		return "", err
	}
	state, err := h.awaitReady(ctx, n.Name)
	if n.Leaves && state == v1alpha1.DonorNodeGone {
		state = v1alpha1.DonorRemoved
	}
	return state, err
}

// Clear removes what captures have left that are gone. An image version that was being made of such a snapshot goes
// before it, so that it takes more than one look.
func (h *Reservations) Clear(ctx context.Context, pools []cloud.PoolID) error {
	for {
		left, err := h.Engine.SweepLeftovers(ctx, pools)
		if err != nil || len(left) == 0 {
			return err
		}
		if !waited(ctx, lookPause) {
			return context.Cause(ctx)
		}
	}
}

// passes are made until the holder holds the node no longer.
func (h *Reservations) passes(ctx context.Context, name string, holder v1alpha1.Holder) error {
	for {
		result, err := h.Engine.Orphan(ctx, name, holder)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if !cloud.Is(err, cloud.Throttled) && !cloud.Is(err, cloud.Unavailable) && !apierrors.IsConflict(err) {
				return err
			}
			if h.Trouble != nil {
				h.Trouble(err)
			}
		}
		if result.Done {
			return nil
		}
		if !waited(ctx, result.After) {
			return context.Cause(ctx)
		}
	}
}

// takeFromReplacement starts a node's instance if it is off, and gives the node back as the replacement found it.
func (h *Reservations) takeFromReplacement(ctx context.Context, name string, holder v1alpha1.Holder) error {
	n, err := h.Cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	reservation, err := h.reservations().Confirmed(ctx, n)
	if err != nil {
		return err
	}
	if reservation == nil || !reservation.Same(holder) {
		return cluster.Refusef("node %s is held by %s no longer, and nothing was changed: `kamino reservations` tells who holds it now", name, holder)
	}
	id := cloud.InstanceID(n.Spec.ProviderID)
	instance, err := h.Cloud.Instance(ctx, id)
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		return err
	}
	if instance.Power == cloud.PowerStopped {
		if _, err := h.Cloud.EnsureStarted(ctx, id); err != nil {
			return err
		}
	}
	return h.reservations().Release(ctx, n, *reservation, nil)
}

// awaitReady looks at the node until it is Ready or the time is over, and tells what it is then.
func (h *Reservations) awaitReady(ctx context.Context, name string) (v1alpha1.DonorState, error) {
	for {
		n, err := h.Cluster.Kube.CoreV1().Nodes().Get(context.WithoutCancel(ctx), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return v1alpha1.DonorNodeGone, nil
		case err != nil:
			return "", fmt.Errorf("read node %s: %w", name, err)
		case nodestate.Ready(n):
			return v1alpha1.DonorReady, nil
		}
		if !waited(ctx, lookPause) {
			return v1alpha1.DonorNotReady, nil
		}
	}
}

// waited waits; it is false if the context ended first.
func waited(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reservations are the Leases that say who holds which node.
func (h *Reservations) reservations() node.Reservations {
	return node.Reservations{Kube: h.Cluster.Kube, Namespace: h.Namespace, Now: h.Now}
}

// clear takes a reservation from a Node that no Lease confirms. What is done to the Node is what any reservation does at least, and
// nothing is done to its instance.
func (h *Reservations) clear(ctx context.Context, name string) error {
	n, err := h.Cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	confirmed, err := h.reservations().Confirmed(ctx, n)
	switch {
	case err != nil:
		return err
	case confirmed != nil:
		return cluster.Refusef("node %s is held by %s now, and nothing was changed: `kamino reservations` tells who holds it", name, confirmed.Holder)
	}
	return node.Clear(ctx, h.Cluster.Kube, n)
}

func (h *Reservations) cordon(ctx context.Context, name string) error {
	n, err := h.Cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	return node.Cordon(ctx, h.Cluster.Kube, n)
}
