package runner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/controller/sweep"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

// sweeper returns the controller that cleans up after lost captures.
func (k *Controller) sweeper(
	engine *capture.Engine, nodes *nodecache.Nodes, cached client.Reader, recorder events.EventRecorder,
) *sweep.Sweeper {
	return &sweep.Sweeper{
		Held:   func(ctx context.Context) ([]reservations.Node, []cloud.PoolID, error) { return k.reserved(ctx, nodes) },
		Orphan: engine.Orphan, Sweep: engine.SweepLeftovers, Now: k.Now, Log: k.Log.WithName("sweep"),
		Places: func(ctx context.Context) ([]cloud.PoolID, error) {
			all, err := k.Cluster.Prototypes(ctx)
			return reservations.PoolsOf(all), err
		},
		Prototypes: func(ctx context.Context) ([]types.UID, error) { return uidsOf(ctx, cached) },
		Report: func(n reservations.Node, why string) {
			reason := "ReservationUnconfirmed"
			if n.InService {
				reason = "DonorInService"
			}
			node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: types.UID(n.Name)} // in the form of the kubelet's own events
			recorder.Eventf(node, nil, corev1.EventTypeWarning, reason, "Sweep", "%s", why)
		},
	}
}

// uidsOf returns the UIDs of the Prototypes from the manager's cache.
func uidsOf(ctx context.Context, cached client.Reader) ([]types.UID, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PrototypeList"))
	if err := cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list prototypes: %w", err)
	}
	uids := make([]types.UID, len(list.Items))
	for i := range list.Items {
		uids[i] = list.Items[i].UID
	}
	return uids, nil
}

// reserved finds the cached nodes with a reservation, on the Node or in a Lease. reserved lists the Prototypes only if
// there is such a node.
func (k *Controller) reserved(ctx context.Context, nodes *nodecache.Nodes) ([]reservations.Node, []cloud.PoolID, error) {
	leases, err := (node.Reservations{Kube: k.Cluster.Kube, Namespace: k.Namespace, Now: k.Now}).All(ctx)
	if err != nil {
		return nil, nil, err
	}
	var found []reservations.Node
	var captures *reservations.Captures
	pools := nodes.Pools()
	for _, pool := range pools {
		for _, n := range nodes.Of(pool) {
			lease := node.ReservationOf(leases, n)
			if n.Annotations[v1alpha1.ReservationAnnotation] == "" && lease == nil {
				continue
			}
			if captures == nil {
				all, err := k.Cluster.Prototypes(ctx)
				if err != nil {
					return nil, nil, err
				}
				read := reservations.CapturesOf(all)
				captures = &read
			}
			said, isHeld := captures.Of(n)
			if n, isHeld := captures.Confirm(n, said, isHeld, lease); isHeld {
				found = append(found, n)
			}
		}
	}
	reservations.Sort(found)
	return found, pools, nil
}
