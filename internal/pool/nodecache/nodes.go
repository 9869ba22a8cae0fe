package nodecache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Nodes keeps the nodes of a cluster by pool, and the pools with changes, for concurrent use. Pass only nodes after Strip:
// heartbeats then make no change. Before Place, a new node is in no pool.
type Nodes struct {
	registry membership.Registry

	mu    sync.Mutex
	pools map[cloud.PoolID]*members
	homes map[string]*members // by node name
	// outside has the nodes of no pool. Place asks for the pool again when the values of a node change.
	outside *members
	// waiting has the nodes without a known pool, by name.
	waiting map[string]*corev1.Node
	news    map[cloud.PoolID]bool
}

// members are the nodes of a pool, by name.
type members struct {
	pool  cloud.PoolID
	nodes map[string]*corev1.Node
}

// NewNodes returns an empty Nodes. The registry finds the pools.
func NewNodes(registry membership.Registry) *Nodes {
	return &Nodes{
		registry: registry,
		pools:    map[cloud.PoolID]*members{},
		homes:    map[string]*members{},
		outside:  &members{nodes: map[string]*corev1.Node{}},
		waiting:  map[string]*corev1.Node{},
		news:     map[cloud.PoolID]bool{},
	}
}

// Set stores the current state of a node and reports whether the state changed. Do not change the node afterwards.
func (n *Nodes) Set(node *corev1.Node) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if before, waits := n.waiting[node.Name]; waits {
		n.waiting[node.Name] = node
		return !same(before, node)
	}
	if home, known := n.homes[node.Name]; known {
		before := home.nodes[node.Name]
		switch {
		case home == n.outside && sameValues(before, node):
			home.nodes[node.Name] = node
			return false
		case home != n.outside && before.Spec.ProviderID == node.Spec.ProviderID:
			home.nodes[node.Name] = node
			if same(before, node) {
				return false
			}
			n.news[home.pool] = true
			return true
		}
		n.remove(node.Name, home)
	}
	n.waiting[node.Name] = node
	return true
}

// Place finds the pools of all nodes that are new or have a new instance, with one request. After an error of the cloud
// the nodes stay in place, and the next call tries again.
func (n *Nodes) Place(ctx context.Context) error {
	n.mu.Lock()
	come := slices.Collect(maps.Values(n.waiting))
	n.mu.Unlock()
	values := make([]cloud.NodeValues, len(come))
	for i, node := range come {
		values[i] = membership.Values(node)
	}
	found, err := membership.Of(ctx, n.registry, values...)
	if err != nil {
		return fmt.Errorf("find the pools of %d nodes: %w", len(come), err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, node := range come {
		if n.waiting[node.Name] != node {
			continue // changed or deleted meanwhile
		}
		delete(n.waiting, node.Name)
		home := n.outside
		if pool := found[i].Pool; pool != "" {
			if n.pools[pool] == nil {
				n.pools[pool] = &members{pool, map[string]*corev1.Node{}}
			}
			home = n.pools[pool]
			n.news[pool] = true
		}
		home.nodes[node.Name], n.homes[node.Name] = node, home
	}
	return nil
}

// sameValues reports whether two states of a node have the same values for the choice of the pool.
func sameValues(a, b *corev1.Node) bool {
	before, after := membership.Values(a), membership.Values(b)
	return before.ProviderID == after.ProviderID && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations)
}

// same reports whether two states of a node are equal except for the resource version.
func same(a, b *corev1.Node) bool {
	before, after := *a, *b
	before.ResourceVersion, after.ResourceVersion = "", ""
	return equality.Semantic.DeepEqual(&before, &after)
}

// Delete removes a node and reports whether a pool changed.
func (n *Nodes) Delete(name string) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waits := n.waiting[name]
	delete(n.waiting, name)
	home, known := n.homes[name]
	if known {
		n.remove(name, home)
	}
	return waits || known && home != n.outside
}

func (n *Nodes) remove(name string, home *members) {
	delete(n.homes, name)
	delete(home.nodes, name)
	if home == n.outside {
		return
	}
	if len(home.nodes) == 0 {
		delete(n.pools, home.pool)
	}
	n.news[home.pool] = true
}

// News returns the pools whose nodes have changed since the last call.
func (n *Nodes) News() []cloud.PoolID {
	n.mu.Lock()
	defer n.mu.Unlock()
	pools := make([]cloud.PoolID, 0, len(n.news))
	for id := range n.news {
		pools = append(pools, id)
	}
	clear(n.news)
	return pools
}

// Pools returns the pools with nodes, sorted.
func (n *Nodes) Pools() []cloud.PoolID {
	n.mu.Lock()
	defer n.mu.Unlock()
	pools := make([]cloud.PoolID, 0, len(n.pools))
	for id := range n.pools {
		pools = append(pools, id)
	}
	slices.Sort(pools)
	return pools
}

// Reserved returns the nodes of pools with a reservation, by name. The nodes are shared: do not change the nodes.
func (n *Nodes) Reserved() []*corev1.Node {
	n.mu.Lock()
	var nodes []*corev1.Node
	for _, home := range n.pools {
		for _, node := range home.nodes {
			if node.Annotations[v1alpha1.ReservationAnnotation] != "" {
				nodes = append(nodes, node)
			}
		}
	}
	n.mu.Unlock()
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// Serving returns the instances of the Ready nodes of pools by node name, and the number of all other Nodes. If several
// Nodes have one instance, all but one are others.
func (n *Nodes) Serving() (instances map[string]string, others int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	instances, distinct := map[string]string{}, map[string]bool{}
	for _, home := range n.pools {
		for name, node := range home.nodes {
			if nodestate.Ready(node) {
				instance := strings.ToLower(node.Spec.ProviderID)
				instances[name], distinct[instance] = instance, true
			}
		}
	}
	return instances, len(n.homes) + len(n.waiting) - len(distinct)
}

// Of returns the nodes of a pool by name. The nodes are shared: do not change the nodes.
func (n *Nodes) Of(pool cloud.PoolID) []*corev1.Node {
	n.mu.Lock()
	var nodes []*corev1.Node
	if home := n.pools[pool]; home != nil {
		nodes = slices.AppendSeq(make([]*corev1.Node, 0, len(home.nodes)), maps.Values(home.nodes))
	}
	n.mu.Unlock()
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// Summary is the state of a pool's nodes in numbers.
type Summary struct {
	// Nodes, Ready and Arriving are the numbers of all nodes, Ready nodes and nodes within the first hour.
	Nodes, Ready, Arriving int
	// Youngest is the creation time of the newest node; zero without nodes.
	Youngest time.Time
}

// Sums counts the nodes of each pool.
func (n *Nodes) Sums(now time.Time) map[cloud.PoolID]Summary {
	n.mu.Lock()
	defer n.mu.Unlock()
	sums := make(map[cloud.PoolID]Summary, len(n.pools))
	for pool, home := range n.pools {
		var sum Summary
		for _, node := range home.nodes {
			sum.Nodes++
			switch {
			case nodestate.Ready(node):
				sum.Ready++
			case nodestate.Arriving(node, now):
				sum.Arriving++
			}
			if at := node.CreationTimestamp.Time; at.After(sum.Youngest) {
				sum.Youngest = at
			}
		}
		sums[pool] = sum
	}
	return sums
}

// All returns the nodes of all pools, in no order. The nodes are shared: do not change the nodes.
func (n *Nodes) All() (all []*corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, home := range n.pools {
		all = slices.AppendSeq(all, maps.Values(home.nodes))
	}
	return all
}
