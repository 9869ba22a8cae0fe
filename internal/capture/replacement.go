package capture

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// findNewNode returns the oldest Node that joined after the growth and fits; nil without such a Node. Any client may create
// Nodes: the new Node must be the only Node of an instance, with a Lease from the kubelet.
func (d replacements) findNewNode(ctx context.Context, w *pass, fits func(*corev1.Node) bool) (*corev1.Node, error) {
	after := w.removalRecord().NewestNodeAt
	var all, candidates []*corev1.Node
	err := membership.Each(ctx, d.Kube, d.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool != w.pool {
			return nil
		}
		all = append(all, n)
		if n.Name != w.p.Spec.Donor.NodeName && fits(n) && (after == nil || n.CreationTimestamp.After(after.Time)) {
			candidates = append(candidates, n)
		}
		return nil
	})
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	without, err := node.WithoutKubelet(ctx, d.Kube, candidates, func() []*corev1.Node { return all })
	if err != nil && !apierrors.IsForbidden(err) { // without permission to read Leases the kubelet check is skipped
		return nil, err
	}
	candidates = slices.DeleteFunc(candidates, func(n *corev1.Node) bool { return without[n.UID] || !d.isAlone(n, all, without) })
	slices.SortStableFunc(candidates, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	has, err := d.instancesOf(ctx, w.pool)
	if err != nil {
		return nil, err
	}
	for _, n := range candidates {
		if has(cloud.InstanceID(n.Spec.ProviderID)) {
			return n, nil
		}
	}
	return nil, nil
}

// isAlone reports whether no further Node with a kubelet names the same instance.
func (d replacements) isAlone(n *corev1.Node, all []*corev1.Node, without map[types.UID]bool) bool {
	return !slices.ContainsFunc(all, func(other *corev1.Node) bool {
		return other.UID != n.UID && !without[other.UID] && d.Cloud.SameInstance(cloud.InstanceID(other.Spec.ProviderID), cloud.InstanceID(n.Spec.ProviderID))
	})
}

// instancesOf returns a function that reports whether the pool has an instance that is not being removed.
func (d replacements) instancesOf(ctx context.Context, pool cloud.PoolID) (has func(cloud.InstanceID) bool, err error) {
	instances, err := d.Cloud.Instances(ctx, pool)
	return func(id cloud.InstanceID) bool {
		return slices.ContainsFunc(instances, func(i cloud.Instance) bool { return !i.Removing && d.Cloud.SameInstance(i.ID, id) })
	}, err
}
