package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

const (
	// registering is the longest time between the first Lease of a kubelet and the creation of the Node. A kubelet
	// renews the Lease every ten seconds.
	registering = time.Minute
	// leaseLife is how long Kubelets uses the Leases of one read, for all pools.
	leaseLife = 10 * time.Second
	// mostLeases is the number of Leases read singly within leaseLife. For more Nodes Kubelets lists all Leases in
	// pages.
	mostLeases = 20
	leasePage  = 500
	// mostReferences is the number of old Nodes that show whether the cluster's kubelets renew Leases.
	mostReferences = 3
)

// Kubelets reads the Leases of kubelets in kube-node-lease. The Nodes of all pools cost a few GET requests or one LIST.
// Kubelets is safe for concurrent use.
type Kubelets struct {
	Kube kubernetes.Interface
	// Now is the clock.
	Now func() time.Time

	mu sync.Mutex
	at time.Time
	// written is the time of the last write of a Lease by node name; zero without a Lease. isComplete is true if all
	// Leases were listed.
	written    map[string]time.Time
	isComplete bool
	// offsets are the clocks of kubelets minus the API server's clock, by node name.
	offsets map[string]time.Duration
	// renewed is true if any kubelet of the cluster renews a Lease. referred is true after the check of the oldest
	// Nodes.
	renewed, referred bool
}

// WithoutKubelet calls Kubelets.Without with fresh Leases.
func WithoutKubelet(ctx context.Context, kube kubernetes.Interface, nodes []*corev1.Node, all func() []*corev1.Node) (map[types.UID]bool, error) {
	return (&Kubelets{Kube: kube, Now: time.Now}).Without(ctx, nodes, all)
}

// Without reports for each Node, by UID, whether no kubelet has renewed the Lease in kube-node-lease. Only kubelets can write
// these Leases. If even the oldest Nodes of all have no Lease, the map is empty: Leases are not in use.
func (k *Kubelets) Without(ctx context.Context, nodes []*corev1.Node, all func() []*corev1.Node) (map[types.UID]bool, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.Now(); k.written == nil || now.Sub(k.at) >= leaseLife {
		k.at, k.written, k.isComplete, k.renewed, k.referred = now, map[string]time.Time{}, false, false, false
		k.offsets = map[string]time.Duration{}
	}
	if err := k.readLeases(ctx, nodes); err != nil {
		return nil, err
	}
	without := map[types.UID]bool{}
	for _, n := range nodes {
		kept := k.keeps(n)
		without[n.UID], k.renewed = !kept, k.renewed || kept
	}
	if !k.renewed && !k.referred {
		known := references(all(), without)
		if err := k.readLeases(ctx, known); err != nil {
			return nil, err
		}
		k.renewed, k.referred = slices.ContainsFunc(known, k.keeps), true
	}
	if !k.renewed {
		return map[types.UID]bool{}, nil
	}
	return without, nil
}

// references returns the oldest Ready Nodes. A client that fakes Nodes has created younger Nodes.
func references(all []*corev1.Node, but map[types.UID]bool) []*corev1.Node {
	ready := slices.DeleteFunc(slices.Clone(all), func(n *corev1.Node) bool { return but[n.UID] || !nodestate.Ready(n) })
	slices.SortFunc(ready, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return ready[:min(len(ready), mostReferences)]
}

// readLeases gets the Leases of nodes, except the Leases already read.
func (k *Kubelets) readLeases(ctx context.Context, nodes []*corev1.Node) error {
	if k.isComplete {
		return nil
	}
	unread := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { _, is := k.written[n.Name]; return is })
	if len(k.written)+len(unread) > mostLeases+mostReferences {
		return k.list(ctx)
	}
	for _, n := range unread {
		lease, err := k.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			k.written[n.Name] = time.Time{}
		case err != nil:
			return fmt.Errorf("read the kubelet's lease %s/%s of node %s: %w", corev1.NamespaceNodeLease, n.Name, n.Name, err)
		default:
			k.note(lease)
		}
	}
	return nil
}

func (k *Kubelets) list(ctx context.Context) error {
	for options := (metav1.ListOptions{Limit: leasePage}); ; {
		list, err := k.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list the kubelets' leases in %s: %w", corev1.NamespaceNodeLease, err)
		}
		for i := range list.Items {
			k.note(&list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			k.isComplete = true
			return nil
		}
	}
}

// note keeps the times of a Lease. The kubelet writes RenewTime by its own clock, and the API server the managed fields.
func (k *Kubelets) note(lease *coordinationv1.Lease) {
	written := LeaseWrittenAt(lease)
	k.written[lease.Name] = written
	if offset, known := LeaseOffset(lease); known {
		k.offsets[lease.Name] = offset
	}
}

// LeaseOffset returns the clock of the Lease's kubelet minus the API server's clock, from the last write of the Lease. known
// is false without a RenewTime, or without managed fields.
func LeaseOffset(lease *coordinationv1.Lease) (offset time.Duration, known bool) {
	var written time.Time
	for _, entry := range lease.ManagedFields {
		if entry.Time != nil && entry.Time.After(written) {
			written = entry.Time.Time
		}
	}
	if written.IsZero() || lease.Spec.RenewTime == nil {
		return 0, false
	}
	return lease.Spec.RenewTime.Sub(written), true
}

// Offset returns the clock of the node's kubelet minus the API server's clock, to a second, after Without has read the
// Lease. known is false without a Lease, or without the API server's time.
func (k *Kubelets) Offset(node string) (offset time.Duration, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	offset, known = k.offsets[node]
	return offset.Truncate(time.Second), known
}

// keeps reports whether a kubelet has written the Lease of the Node. An older Lease belongs to an earlier node of the
// same name.
func (k *Kubelets) keeps(n *corev1.Node) bool {
	written := k.written[n.Name]
	return !written.IsZero() && !written.Before(n.CreationTimestamp.Add(-registering))
}

// LeaseWrittenAt returns the last write of a Lease by the API server's clock; without managed fields, the RenewTime.
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
