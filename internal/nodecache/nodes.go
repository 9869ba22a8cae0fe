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
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// Nodes keeps a cluster's nodes by pool, and which pools have news. Safe for concurrent use.
//
// Give it nodes that went through Strip, or Pack: then a heartbeat makes no difference, and no news. Which pools they
// belong to is asked by Place, for all that have come since at once; until then they are in none.
type Nodes struct {
	registry membership.Registry

	mu    sync.Mutex
	pools map[cloud.PoolID]*members
	homes map[string]*members // by node name
	// outside are the nodes that belong to no pool: asked about again when one says something else of itself.
	outside *members
	// waiting are those whose pool nobody has told yet, by name.
	waiting map[string]*corev1.Node
	news    map[cloud.PoolID]bool
}

// members are the nodes of a pool, by name.
type members struct {
	pool  cloud.PoolID
	nodes map[string]*corev1.Node
}

// NewNodes has the registry tell pools apart.
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

// Set takes a node as it is now and tells whether that is news. The node must not be changed afterwards.
func (n *Nodes) Set(node *corev1.Node) (news bool) {
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

// Place finds the pools of the nodes that have come, or changed their instance, since it was called last: once for all
// of them. Where the cloud can't be asked they stay where they are, and the next call asks again.
func (n *Nodes) Place(ctx context.Context) error {
	n.mu.Lock()
	come := slices.Collect(maps.Values(n.waiting))
	n.mu.Unlock()
	values := make([]cloud.NodeValues, len(come))
	for i, node := range come {
		values[i] = membership.Values(unpack(node))
	}
	found, err := membership.Of(ctx, n.registry, values...)
	if err != nil {
		return fmt.Errorf("find the pools of %d nodes: %w", len(come), err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, node := range come {
		if n.waiting[node.Name] != node {
			continue // it has changed meanwhile, or gone
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

// sameValues tells whether two states of a node say the same to whoever tells its pool.
func sameValues(a, b *corev1.Node) bool {
	before, after := membership.Values(unpack(a)), membership.Values(unpack(b))
	return before.ProviderID == after.ProviderID && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations)
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

// Reserved lists the nodes of pools that carry a reservation, by name, unpacked. They are shared: read them only.
func (n *Nodes) Reserved() []*corev1.Node {
	n.mu.Lock()
	var nodes []*corev1.Node
	for _, home := range n.pools {
		for _, node := range home.nodes {
			if node.Annotations[v1alpha1.ReservationAnnotation] != "" { // which is in its place on a packed node, too
				nodes = append(nodes, node)
			}
		}
	}
	n.mu.Unlock()
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i, node := range nodes {
		nodes[i] = unpack(node)
	}
	return nodes
}

// Serving returns the Ready nodes of pools with their instances, and how many Nodes there are besides. Of several Nodes of one instance
// all but one are such.
func (n *Nodes) Serving() (instances map[string]string, others int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	instances, distinct := map[string]string{}, map[string]bool{}
	for _, home := range n.pools {
		for name, node := range home.nodes {
			if nodestate.Ready(node) { // which is in its place on a packed node, too
				instance := strings.ToLower(node.Spec.ProviderID)
				instances[name], distinct[instance] = instance, true
			}
		}
	}
	return instances, len(n.homes) + len(n.waiting) - len(distinct)
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

// Sum is how a pool's nodes stand, without what each of them says.
type Sum struct {
	// Nodes of the pool, how many of them are Ready, and how many have only just come.
	Nodes, Ready, Arriving int
	// Youngest is when the last one came; zero without nodes.
	Youngest time.Time
}

// Sum counts a pool's nodes. It costs next to nothing.
func (n *Nodes) Sum(pool cloud.PoolID, now time.Time) Sum {
	n.mu.Lock()
	defer n.mu.Unlock()
	var sum Sum
	home := n.pools[pool]
	if home == nil {
		return sum
	}
	for _, node := range home.nodes {
		sum.Nodes++
		switch {
		case nodestate.Ready(node): // which is in its place on a packed node, too
			sum.Ready++
		case nodestate.Arriving(node, now):
			sum.Arriving++
		}
		if at := node.CreationTimestamp.Time; at.After(sum.Youngest) {
			sum.Youngest = at
		}
	}
	return sum
}
