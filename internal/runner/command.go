package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
)

// NewDecider returns the Decider of a command, with the nodes of the cluster, and the look that found them.
func NewDecider(ctx context.Context, c *cluster.Connection, provider cloud.Provider, engine Engine, o Options) (*policy.Decider, *membership.Cluster, error) {
	nodes, patcher := nodecache.NewNodes(provider), patcher(c, o)
	looks := policy.NewPoolCache(provider, o.Now)
	looks.Intents = &policy.Intents{Kube: c.Kube, Namespace: o.Namespace}
	d := &policy.Decider{
		Read: readPrototypes{c}, Client: c.Client, Cloud: provider, Nodes: nodes,
		PoolCache: looks, Preflight: engine.Refusals, Evictions: engine.Evictions, OwnNode: o.OwnNode, Now: o.Now,
		Joins: joins(c, o), Leased: leased(c, o), NewNodes: newNodes(c, o, nodes, time.Time{}),
		PatchChecks: policy.PatchChecks{Check: patcher.Check, Sweep: patcher.SweepChecks}, Log: o.Log.WithName("policy"),
	}
	seen, err := ReadNodes(ctx, c, provider, d.Nodes)
	return d, seen, err
}

// patcher asks nodes in service for their pending patches.
func patcher(c *cluster.Connection, o Options) *nodepatch.Patcher {
	return &nodepatch.Patcher{
		Client: c.Client, Kube: c.Kube, Namespace: cmp.Or(o.PodNamespace, v1alpha1.DefaultGeneralizeNamespace), Image: o.Image, Now: clock(o),
	}
}

// newNodes are the questions about new nodes, which the process reads without a break since a time; zero without a break.
func newNodes(c *cluster.Connection, o Options, nodes *nodecache.Nodes, since time.Time) policy.NewNodes {
	return policy.NewNodes{
		UnhealthyDaemonSets: (&nodejoin.DaemonSets{Kube: c.Kube, Now: clock(o), Serving: nodes.Serving}).Unhealthy,
		Differences:         (&nodejoin.Peers{Kube: c.Kube, Now: clock(o)}).Differences,
		Workloads:           (&nodejoin.Workloads{Kube: c.Kube, Now: clock(o)}).On,
		WithoutKubelet:      withoutKubelet(c, o), ObservedSince: since,
	}
}

// clock is the clock of the options.
func clock(o Options) func() time.Time {
	if o.Now == nil {
		return time.Now
	}
	return o.Now
}

// withoutKubelet checks the Leases of kubelets. Without permission to read these Leases, withoutKubelet reports no node.
func withoutKubelet(c *cluster.Connection, o Options) func(context.Context, []*corev1.Node, func() []*corev1.Node) (map[types.UID]bool, error) {
	kubelets := &node.Kubelets{Kube: c.Kube, Now: clock(o)}
	return func(ctx context.Context, nodes []*corev1.Node, all func() []*corev1.Node) (map[types.UID]bool, error) {
		without, err := kubelets.Without(ctx, nodes, all)
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		return without, err
	}
}

// leased lists the reservations that Leases confirm, by the UID of the Node. Without permission to list Leases, the list is
// empty.
func leased(c *cluster.Connection, o Options) func(context.Context) (map[types.UID]v1alpha1.Reservation, error) {
	return func(ctx context.Context) (map[types.UID]v1alpha1.Reservation, error) {
		all, err := (node.Reservations{Kube: c.Kube, Namespace: o.Namespace, Now: o.Now}).All(ctx)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		found := map[types.UID]v1alpha1.Reservation{}
		for _, l := range all {
			found[l.NodeUID] = l.Reservation
		}
		return found, nil
	}
}

// joins detects how the nodes of a pool join, from objects of the cluster.
func joins(c *cluster.Connection, o Options) func(context.Context, bootstrapkind.Facts) (bootstrapkind.Answer, error) {
	return (&membership.Joiner{Kube: c.Kube, Now: o.Now}).Joins
}

// ReadNodes updates nodes from the cluster, and returns the look.
func ReadNodes(ctx context.Context, c *cluster.Connection, registry membership.Registry, nodes *nodecache.Nodes) (*membership.Cluster, error) {
	seen, err := membership.Look(ctx, c.Kube, registry)
	if err = cmp.Or(err, seen.Trouble); err != nil {
		return seen, err
	}
	for _, n := range seen.Nodes {
		nodes.Set(n)
	}
	if err := nodes.Place(ctx); err != nil {
		return seen, err
	}
	for _, n := range nodes.All() {
		if seen.Node(n.Name) == nil {
			nodes.Delete(n.Name)
		}
	}
	return seen, nil
}

// readPrototypes reads for policies' decisions. Without Kamino's definitions, the list of Prototypes is empty.
type readPrototypes struct{ *cluster.Connection }

// Get implements client.Reader.
func (r readPrototypes) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return r.Client.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (r readPrototypes) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	prototypes, is := list.(*v1alpha1.PrototypeList)
	if !is {
		return r.Client.List(ctx, list, options...)
	}
	items, err := r.Prototypes(ctx)
	if errors.Is(err, cluster.ErrNotInstalled) {
		err = nil
	}
	prototypes.Items = items
	return err
}
