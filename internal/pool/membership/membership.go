// Package membership finds the pools of nodes and Prototypes. All callers use this package, so that one request to the
// cloud covers many nodes. The package decides nothing. A node without a pool is no error.
package membership

import (
	"context"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Registry finds the pools of nodes. A cloud.PoolProvider is a Registry.
type Registry interface {
	PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error)
}

// Values returns the values of a Node that identify the pool. The maps are shared with the Node.
func Values(n *corev1.Node) cloud.NodeValues {
	return cloud.NodeValues{ProviderID: cloud.InstanceID(n.Spec.ProviderID), Labels: n.Labels, Annotations: n.Annotations}
}

// Of returns the pools of the values, in the same order.
func Of(ctx context.Context, r Registry, values ...cloud.NodeValues) ([]cloud.Membership, error) {
	if len(values) == 0 {
		return nil, nil
	}
	found, err := r.PoolsOf(ctx, values)
	switch {
	case err != nil:
		return nil, err
	case len(found) != len(values):
		return nil, fmt.Errorf("the cloud returned the pools of %d nodes, want %d", len(found), len(values))
	}
	found = slices.Clone(found)
	for i, v := range values {
		if machine := v.Annotations[cloud.MachineAnnotation]; machine != "" && found[i].Pool == "" && !found[i].ByMachine {
			found[i].Why = fmt.Sprintf("the node is Machine %s of Cluster API's cluster %s, and no pool of the cloud builds the node: see %s",
				path.Join(v.Annotations[cloud.MachineNamespaceAnnotation], machine), v.Annotations[cloud.MachineClusterAnnotation], page.ClusterAPI)
		}
	}
	return found, nil
}

// OfNode returns the pool of one node. Use Each or Of for several nodes.
func OfNode(ctx context.Context, r Registry, n *corev1.Node) (cloud.Membership, error) {
	found, err := Of(ctx, r, Values(n))
	if err != nil {
		return cloud.Membership{}, err
	}
	return found[0], nil
}

// Each calls do for each Node that matches the label selector, with the pool. An empty selector matches all Nodes. Each
// asks for the pools once a page.
func Each(ctx context.Context, kube kubernetes.Interface, r Registry, selector string, do func(*corev1.Node, cloud.Membership) error) error {
	return node.Pages(ctx, kube, selector, func(page []corev1.Node) error {
		values := make([]cloud.NodeValues, len(page))
		for i := range page {
			values[i] = Values(&page[i])
		}
		found, err := Of(ctx, r, values...)
		if err != nil {
			return err
		}
		for i := range page {
			if err := do(&page[i], found[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// OfPrototypes returns the pools of Prototypes, in the same order. A Prototype without a pool ID, from an earlier release or
// handmade, costs a request: its pool is the pool of the donor's instance.
func OfPrototypes(ctx context.Context, r Registry, prototypes []v1alpha1.Prototype) ([]cloud.Membership, error) {
	found := make([]cloud.Membership, len(prototypes))
	var values []cloud.NodeValues
	var asked []int
	for i := range prototypes {
		spec := &prototypes[i].Spec
		if found[i].Pool = cloud.PoolID(spec.PoolID); spec.PoolID == "" {
			values = append(values, cloud.NodeValues{ProviderID: cloud.InstanceID(spec.Donor.ProviderID)})
			asked = append(asked, i)
		}
	}
	answers, err := Of(ctx, r, values...)
	if err != nil {
		return nil, err
	}
	for n, i := range asked {
		found[i] = answers[n]
	}
	return found, nil
}

// OfPrototype returns the pool of one Prototype. donor is the donor's Node, or nil: some clouds need more than the
// instance ID.
func OfPrototype(ctx context.Context, r Registry, p *v1alpha1.Prototype, donor *corev1.Node) (cloud.Membership, error) {
	if p.Spec.PoolID != "" {
		return cloud.Membership{Pool: cloud.PoolID(p.Spec.PoolID)}, nil
	}
	values := cloud.NodeValues{ProviderID: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	if donor != nil {
		values.Labels, values.Annotations = donor.Labels, donor.Annotations
	}
	found, err := Of(ctx, r, values)
	if err != nil {
		return cloud.Membership{}, err
	}
	return found[0], nil
}
