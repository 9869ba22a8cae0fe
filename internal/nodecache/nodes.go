package nodecache

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Nodes keeps a cluster's nodes by pool, and which pools have news. Nodes that belong to no pool are not
// kept. Safe for concurrent use.
//
// Give it nodes that went through Strip, or Pack: then a heartbeat makes no difference, and no news.
type Nodes struct {
	poolOf func(cloud.InstanceID) (cloud.PoolID, error)

	mu    sync.Mutex
	pools map[cloud.PoolID]*members
	homes map[string]*members // by node name
	news  map[cloud.PoolID]bool
}

// members are the nodes of a pool, by name.
type members struct {
	pool  cloud.PoolID
	nodes map[string]*corev1.Node
}

// NewNodes tells pools apart by poolOf, which must do no I/O.
func NewNodes(poolOf func(cloud.InstanceID) (cloud.PoolID, error)) *Nodes {
	return &Nodes{
		poolOf: poolOf,
		pools:  map[cloud.PoolID]*members{},
		homes:  map[string]*members{},
		news:   map[cloud.PoolID]bool{},
	}
}

// Set takes a node as it is now and tells whether that is news. The node must not be changed afterwards.
func (n *Nodes) Set(node *corev1.Node) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	home, known := n.homes[node.Name]
	if known {
		before := home.nodes[node.Name]
		if before.Spec.ProviderID == node.Spec.ProviderID {
			home.nodes[node.Name] = node
			if same(before, node) {
				return false
			}
			n.news[home.pool] = true
			return true
		}
		n.remove(node.Name, home)
	}
	pool, err := n.poolOf(cloud.InstanceID(node.Spec.ProviderID))
	if err != nil {
		return known
	}
	if n.pools[pool] == nil {
		n.pools[pool] = &members{pool, map[string]*corev1.Node{}}
	}
	home = n.pools[pool]
	home.nodes[node.Name], n.homes[node.Name] = node, home
	n.news[pool] = true
	return true
}

// same tells whether two states of a node differ in nothing that is kept.
func same(a, b *corev1.Node) bool {
	before, after := *a, *b
	before.ResourceVersion, after.ResourceVersion = "", ""
	return equality.Semantic.DeepEqual(&before, &after)
}

// Delete takes a node out and tells whether that is news.
func (n *Nodes) Delete(name string) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	home, known := n.homes[name]
	if known {
		n.remove(name, home)
	}
	return known
}

func (n *Nodes) remove(name string, home *members) {
	delete(n.homes, name)
	delete(home.nodes, name)
	if len(home.nodes) == 0 {
		delete(n.pools, home.pool)
	}
	n.news[home.pool] = true
}

// News lists the pools whose nodes have changed since it was last asked.
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

// Pools lists the pools that have nodes, in a stable order.
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

// Of lists a pool's nodes by name, unpacked. They are shared: read them only.
func (n *Nodes) Of(pool cloud.PoolID) []*corev1.Node {
	n.mu.Lock()
	var nodes []*corev1.Node
	if home := n.pools[pool]; home != nil {
		nodes = slices.AppendSeq(make([]*corev1.Node, 0, len(home.nodes)), maps.Values(home.nodes))
	}
	n.mu.Unlock()
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i, node := range nodes {
		nodes[i] = unpack(node)
	}
	return nodes
}
