package membership

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// Cluster is one look at the Nodes of a cluster and their pools. A command that asks about many pools looks once, and judges each pool
// by the same look. After the look, a Cluster is safe for concurrent use. A nil Cluster has seen nothing.
type Cluster struct {
	// Nodes are all Nodes after Strip, in the order of the API server.
	Nodes []*corev1.Node
	// Trouble is why the pools of some Nodes are unknown; nil if all are known.
	Trouble error
	// Prototypes of the cluster, if the caller has listed them; else nil.
	Prototypes []v1alpha1.Prototype

	homes map[string]home
	pools map[cloud.PoolID][]*corev1.Node
	// answers are those of Once, by key.
	answers sync.Map
}

// home is a Node with its pool.
type home struct {
	node *corev1.Node
	of   cloud.Membership
}

// Look lists the Nodes. Each of the functions gets each whole Node with its pool, and copies what it keeps. An error of the cloud is the Trouble of the look,
// and the cloud is not asked again. Without a registry, no Node has a pool.
func Look(ctx context.Context, kube kubernetes.Interface, r Registry, see ...func(*corev1.Node, cloud.Membership)) (*Cluster, error) {
	c := &Cluster{homes: map[string]home{}, pools: map[cloud.PoolID][]*corev1.Node{}}
	return c, node.Pages(ctx, kube, "", func(page []corev1.Node) error {
		of := c.poolsOf(ctx, r, page)
		for i := range page {
			n := &page[i]
			for _, do := range see {
				do(n, of[i])
			}
			Strip(n)
			kept := *n // the memory of the page can be freed
			n = &kept
			c.Nodes, c.homes[n.Name] = append(c.Nodes, n), home{n, of[i]}
			c.pools[of[i].Pool] = append(c.pools[of[i].Pool], n)
		}
		return nil
	})
}

func (c *Cluster) poolsOf(ctx context.Context, r Registry, page []corev1.Node) []cloud.Membership {
	unknown := make([]cloud.Membership, len(page))
	if r == nil || c.Trouble != nil {
		return unknown
	}
	values := make([]cloud.NodeValues, len(page))
	for i := range page {
		values[i] = Values(&page[i])
	}
	found, err := Of(ctx, r, values...)
	if c.Trouble = err; err != nil {
		return unknown
	}
	return found
}

// Node returns the Node of the name; nil if the look has not seen it. Do not change the Node.
func (c *Cluster) Node(name string) *corev1.Node {
	if c == nil {
		return nil
	}
	return c.homes[name].node
}

// Around calls do for the Nodes of a pool, and for the named Node. The error is that of do, or the Trouble of the look.
func (c *Cluster) Around(name string, pool cloud.PoolID, do func(*corev1.Node, cloud.Membership) error) error {
	nodes := c.pools[pool]
	if at, found := c.homes[name]; found && at.of.Pool != pool {
		nodes = append(slices.Clone(nodes), at.node)
	}
	for _, n := range nodes {
		if err := do(n, c.homes[n.Name].of); err != nil {
			return err
		}
	}
	return c.Trouble
}

// With returns the Nodes with a label. Do not change the Nodes.
func (c *Cluster) With(label string) (nodes []*corev1.Node) {
	for _, n := range c.Nodes {
		if _, has := n.Labels[label]; has {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Of returns the Nodes of a pool. Do not change the Nodes.
func (c *Cluster) Of(pool cloud.PoolID) []*corev1.Node { return c.pools[pool] }

// Once asks what does not depend on the pool, and remembers the answer under the key. Without a look, Once always asks.
func Once[T any](c *Cluster, key string, ask func() (T, error)) (T, error) {
	if c == nil {
		return ask()
	}
	asked, _ := c.answers.LoadOrStore(key, sync.OnceValues(ask))
	return asked.(func() (T, error))() // each key has one type
}
