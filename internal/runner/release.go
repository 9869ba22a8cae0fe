package runner

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
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/process"
)

// pollInterval is the time between two looks at an awaited node.
const pollInterval = 2 * time.Second

// Reservations finds reserved nodes, and releases nodes without an active holder.
type Reservations struct {
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	Engine  Engine
	// Namespace of the reservations' Leases; empty means DefaultNamespace.
	Namespace string
	Now       func() time.Time
	// Trouble, if set, receives transient errors.
	Trouble func(error)
}

// ReservationList lists the reserved nodes, and leftovers of lost captures.
type ReservationList struct {
	Nodes []reservations.Node
	// Pools of the cluster's nodes, in order, and of its Prototypes.
	Pools []cloud.PoolID
	Left  []reservations.Leftover
	// LeftError is the error of Left; nil if Left is complete.
	LeftError error
	// LeaseError is the error of the Leases; nil if the Leases were read.
	LeaseError error
}

// List lists the reserved nodes without a change. A cluster without Prototypes still has nodes.
func (h *Reservations) List(ctx context.Context) (ReservationList, error) {
	all, err := h.Cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return ReservationList{}, err
	}
	return h.LookWith(ctx, all, func(*corev1.Node, cloud.PoolID) {})
}

// LookWith is List for a caller with a list of the Prototypes. show receives each node with its pool, so that the caller
// need not list the nodes; the pool is empty for a node without a pool.
func (h *Reservations) LookWith(ctx context.Context, all []v1alpha1.Prototype, show func(*corev1.Node, cloud.PoolID)) (ReservationList, error) {
	captures, seen := reservations.CapturesOf(all), ReservationList{Nodes: []reservations.Node{}}
	var leases []node.Lease
	leases, seen.LeaseError = h.reservations().All(ctx)
	var trials membership.Cluster
	err := membership.Each(ctx, h.Cluster.Kube, h.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		show(n, of.Pool)
		if _, is := n.Labels[v1alpha1.TrialKey]; is {
			trials.Nodes = append(trials.Nodes, n.DeepCopy())
		}
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
	seen.Pools = reservations.Union(seen.Pools, reservations.PoolsOf(all))
	seen.Left, seen.LeftError = h.Engine.Leftovers(ctx, seen.Pools, &trials)
	return seen, nil
}

// Release returns a node of a replacement or a lost capture to service, waits until the node is Ready, and returns its state.
// Without a Lease, only annotations and cordon go.
func (h *Reservations) Release(ctx context.Context, n reservations.Node) (v1alpha1.DonorState, error) {
	var err error
	switch n.State {
	case reservations.ByReplacement:
		err = h.takeFromReplacement(ctx, n.Name, n.Holder)
	case reservations.Unreadable, reservations.Stripped, reservations.Unconfirmed:
		err = h.clear(ctx, n.Name)
	case reservations.Orphaned, reservations.ByCapture, reservations.ByUnknown:
		if n.InService { // the user has decided: the node takes no further pods
			err = h.cordon(ctx, n.Name)
		}
		if err == nil {
			err = h.passes(ctx, n.Name, n.Holder)
		}
	}
	if err != nil {
		return "", err
	}
	return h.awaitReady(ctx, n.Name)
}

// Clear removes leftovers of lost captures. An unfinished image version goes before its snapshot, so Clear needs several
// looks.
func (h *Reservations) Clear(ctx context.Context, pools []cloud.PoolID) error {
	for {
		left, err := h.Engine.SweepLeftovers(ctx, pools)
		if err != nil || len(left) == 0 {
			return err
		}
		if process.Wait(ctx, pollInterval) != nil {
			return context.Cause(ctx)
		}
	}
}

// doubtLimit is how long a person waits for a second witness of an instance that the cloud does not find.
const doubtLimit = 2 * time.Minute

// passes runs the engine until the holder no longer holds the node.
func (h *Reservations) passes(ctx context.Context, name string, holder v1alpha1.Holder) error {
	begun := h.Now()
	for {
		result, err := h.Engine.Orphan(ctx, name, holder)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			doubtful := capture.IsDoubtful(err) != nil && h.Now().Sub(begun) > doubtLimit
			passes := cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) || apierrors.IsConflict(err)
			if errors.Is(err, capture.ErrInstanceGone) || doubtful || !passes {
				return err
			}
			if h.Trouble != nil {
				h.Trouble(err)
			}
		}
		if result.Done {
			return nil
		}
		if process.Wait(ctx, result.After) != nil {
			return context.Cause(ctx)
		}
	}
}

// takeFromReplacement starts a stopped instance, and releases the node in its earlier state.
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
		return cluster.Refusef("node %s is no longer held by %s, and nothing was changed: run `kamino reservations` to see the holder", name, holder)
	}
	id := cloud.InstanceID(n.Spec.ProviderID)
	instance, err := h.Cloud.Instance(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		err = nil
		if !nodestate.Ready(n) {
			err = h.confirmGone(ctx, n)
		}
	}
	if err != nil {
		return err
	}
	if instance.Power == cloud.PowerStopped {
		if _, err := h.Cloud.EnsureStarted(ctx, id); err != nil {
			return err
		}
	}
	return h.reservations().Release(ctx, n, *reservation, nil)
}

// confirmGone returns a refusal if the list of the node's pool has the instance that a read has not found: the instance could be
// off.
func (h *Reservations) confirmGone(ctx context.Context, n *corev1.Node) error {
	of, err := membership.OfNode(ctx, h.Cloud, n)
	if err != nil || of.Pool == "" {
		return err
	}
	instances, err := h.Cloud.Instances(ctx, of.Pool)
	if cloud.Is(err, cloud.NotFound) {
		return nil // the pool is gone with its instances
	}
	if err != nil {
		return err
	}
	has := func(i cloud.Instance) bool {
		return !i.Removing && h.Cloud.SameInstance(i.ID, cloud.InstanceID(n.Spec.ProviderID))
	}
	if slices.ContainsFunc(instances, has) {
		return cluster.Refusef("the cloud answers that the instance of node %s does not exist, but the list of its pool has the instance, "+
			"and nothing was changed: run `kamino return-node %s` again", n.Name, n.Name)
	}
	return nil
}

// awaitReady reads the node until the node is Ready or the context ends, and returns the state.
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
		if process.Wait(ctx, pollInterval) != nil {
			return v1alpha1.DonorNotReady, nil
		}
	}
}

// reservations are the Leases of reservations.
func (h *Reservations) reservations() node.Reservations {
	return node.Reservations{Kube: h.Cluster.Kube, Namespace: h.Namespace, Now: h.Now}
}

// clear removes a reservation without a Lease from a Node. clear undoes only changes to the Node, and does not change the
// instance.
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
		return cluster.Refusef("node %s is held by %s now, and nothing was changed: run `kamino reservations` to see the holder", name, confirmed.Holder)
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
