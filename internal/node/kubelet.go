package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/nodestate"
)

const (
	// registering is how long before its Node a kubelet may have written its Lease last. A kubelet renews the Lease every ten seconds.
	registering = time.Minute
	// mostReferences are the Nodes by which it is seen that the cluster's kubelets renew Leases.
	mostReferences = 3
)

// WithoutKubelet reports for each Node, by UID, whether no kubelet has renewed the Lease in kube-node-lease. Another client made such a
// Node: an account that may write Nodes may not write there, and a kubelet writes its own Lease only. all are the cluster's Nodes. If
// their oldest have no Lease either, the Leases say nothing, and the map is empty.
func WithoutKubelet(ctx context.Context, kube kubernetes.Interface, nodes []*corev1.Node, all func() []*corev1.Node) (map[types.UID]bool, error) {
	without, some := map[types.UID]bool{}, false
	for _, n := range nodes {
		kept, err := isKept(ctx, kube, n)
		if err != nil {
			return nil, err
		}
		without[n.UID], some = !kept, some || kept
	}
	if some || len(nodes) == 0 {
		return without, nil
	}
	for _, n := range references(all(), without) {
		if kept, err := isKept(ctx, kube, n); err != nil || kept {
			return without, err
		}
	}
	return map[types.UID]bool{}, nil
}

// references are the oldest Ready Nodes: a client that makes Nodes has made younger ones.
func references(all []*corev1.Node, but map[types.UID]bool) []*corev1.Node {
	ready := slices.DeleteFunc(slices.Clone(all), func(n *corev1.Node) bool { return but[n.UID] || !nodestate.Ready(n) })
	slices.SortFunc(ready, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return ready[:min(len(ready), mostReferences)]
}

func isKept(ctx context.Context, kube kubernetes.Interface, n *corev1.Node) (bool, error) {
	lease, err := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read lease %s/%s, which the kubelet of node %s renews: %w", corev1.NamespaceNodeLease, n.Name, n.Name, err)
	}
	return !LeaseWrittenAt(lease).Before(n.CreationTimestamp.Add(-registering)), nil // an older one is of an earlier node of the name
}

// LeaseWrittenAt is when a Lease was last written, by the API server's clock. Without managed fields it is what the writer says.
func LeaseWrittenAt(lease *coordinationv1.Lease) time.Time {
	last := lease.CreationTimestamp.Time
	for _, entry := range lease.ManagedFields {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	if len(lease.ManagedFields) == 0 && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(last) {
		last = lease.Spec.RenewTime.Time
	}
	return last
}
