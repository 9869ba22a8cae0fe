// Package pool finds the pools of a cluster and reads the state and the history of a pool. The package only reads.
// Package cloud resolves a pool's name; package history decides the state of a version.
package pool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
)

// Finder reads one cluster and the cluster's cloud.
type Finder struct {
	Cluster *cluster.Connection
	Cloud   Cloud
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Uncounted receives the error if the instances of a pool cannot be listed. A rollback is possible all the same.
	// May be nil.
	Uncounted func(error)
}

// Pool is a pool as the cluster knows the pool.
type Pool struct {
	ID cloud.PoolID
	// Prototypes of the pool. The list is empty without Kamino's definitions in the cluster.
	Prototypes []v1alpha1.Prototype
	// stripped are the Nodes with the fields about joining only.
	stripped []*corev1.Node
	// patches has the times of patches by the names of Nodes, and imageBytes the sizes of container images.
	patches    map[string]patchTimes
	imageBytes map[string]int64
	// judged are the joins that the controller has judged, and limits the times of the pool's policy.
	judged []joinhealth.Join
	// tracked is the controller's report on the version in the recipe; nil if there is none.
	tracked *v1alpha1.JoinHealthStatus
	limits  joinhealth.Limits
}

func newPool(id cloud.PoolID) *Pool {
	return &Pool{ID: id, patches: map[string]patchTimes{}, imageBytes: map[string]int64{}}
}

// All returns every pool of a Node or a Prototype. A pool scaled to zero because of a bad image can still be rolled
// back.
func (f *Finder) All(ctx context.Context) (map[cloud.PoolID]*Pool, error) {
	pools := map[cloud.PoolID]*Pool{}
	at := func(id cloud.PoolID) *Pool {
		if pools[id] == nil {
			pools[id] = newPool(id)
		}
		return pools[id]
	}
	err := membership.Each(ctx, f.Cluster.Kube, f.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool == "" {
			return nil // for example a VM of the control plane
		}
		p := at(of.Pool)
		p.stripped = append(p.stripped, nodejoin.Strip(n))
		p.measure(n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, err := f.Cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	of, err := membership.OfPrototypes(ctx, f.Cloud, all)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if id := of[i].Pool; id != "" {
			p := at(id)
			p.Prototypes = append(p.Prototypes, all[i])
		}
	}
	policies, err := f.Cluster.Policies(ctx)
	if err != nil {
		return pools, nil //nolint:nilerr // without this permission, each look judges joins for itself
	}
	for i := range policies {
		for _, s := range policies[i].Status.Pools {
			if p := pools[cloud.PoolID(s.ID)]; p != nil && s.JoinHealth != nil {
				p.tracked = s.JoinHealth
				p.judged, p.limits = nodejoin.Before(s.JoinHealth), nodejoin.Limits(policies[i].Spec.Rollback)
			}
		}
	}
	return pools, nil
}

// Named returns the pool for a name, an ID or a unique part of a name.
func (f *Finder) Named(ctx context.Context, text string) (*Pool, error) {
	pools, err := f.All(ctx)
	if err != nil {
		return nil, err
	}
	id, err := f.Resolve(ctx, text, slices.Collect(maps.Keys(pools)))
	if err != nil {
		return nil, err
	}
	if pools[id] == nil { // the pool has no nodes, and no captures
		return newPool(id), nil
	}
	return pools[id], nil
}

// Resolve resolves a pool's name among the known pools and the cloud's other pools. No match or several matches return a
// cluster.Refused.
func (f *Finder) Resolve(ctx context.Context, text string, known []cloud.PoolID) (cloud.PoolID, error) {
	id, err := cloud.Find(ctx, f.Cloud, text, known)
	var fromCloud *cloud.Error
	if err != nil && !errors.As(err, &fromCloud) {
		return "", cluster.Refusef("%w", err)
	}
	return id, err
}

// Some returns the pools of the cluster's first nodes, at most limit nodes, for callers that cannot wait for thousands
// of nodes.
func (f *Finder) Some(ctx context.Context, limit int64) ([]cloud.PoolID, error) {
	list, err := f.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	var values []cloud.NodeValues
	for i := range list.Items {
		values = append(values, membership.Values(&list.Items[i]))
	}
	found, err := membership.Of(ctx, f.Cloud, values...)
	if err != nil {
		return nil, err
	}
	var ids []cloud.PoolID
	for _, of := range found {
		if of.Pool != "" {
			ids = append(ids, of.Pool)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// PastPool is the history of a pool, with the joins of the pool's nodes.
type PastPool struct {
	// History of the versions.
	History history.History
	// Joins of the pool's instances with a known start; empty if the cloud could not list the instances.
	Joins []joinhealth.Join
	// Capacity is the desired number of nodes.
	Capacity int64
	// nodes are the instances of the pool with their Nodes.
	nodes []joinhealth.Node
}

// History returns the history of the pool's versions. keep replaces the retention setting of a capture; zero means the
// setting of the pool's last capture.
func (f *Finder) History(ctx context.Context, p *Pool, keep int) (history.History, error) {
	past, err := f.Past(ctx, p, keep)
	return past.History, err
}

// Past returns the history of the pool's versions, with joins. keep is that of History.
func (f *Finder) Past(ctx context.Context, p *Pool, keep int) (PastPool, error) {
	facts := history.Facts{Prototypes: p.Prototypes, Keep: keep}
	var err error
	if facts.Pool, err = f.Cloud.Pool(ctx, p.ID); err != nil {
		return PastPool{}, err
	}
	if facts.Images, err = f.images(ctx, p.ID); err != nil {
		return PastPool{}, err
	}
	instances, err := f.Cloud.Instances(ctx, p.ID)
	if err != nil {
		if f.Uncounted != nil {
			f.Uncounted(err)
		}
		return PastPool{History: history.Of(facts), Capacity: facts.Pool.Capacity}, nil
	}
	facts.Counted = true
	now := time.Now()
	if f.Now != nil {
		now = f.Now()
	}
	seen := nodejoin.Observation{Now: now, Instances: instances, Nodes: p.stripped, Images: facts.Images, Same: f.Cloud.SameInstance}
	for i, name := range nodejoin.Names(seen) {
		facts.Members = append(facts.Members, history.Member{Name: name, BuiltFrom: instances[i].BuiltFrom})
	}
	nodes := nodejoin.Nodes(seen)
	// A join fails if a second look finds the node overdue again. This look is the only one: the node has failed if it was
	// already overdue that long ago.
	limits := p.limits.Defaulted()
	earlier := joinhealth.Judge(seen.Now.Add(-limits.Unready), time.Time{}, nodes, p.known(nodes), limits)
	facts.Joins = joinhealth.Judge(seen.Now, time.Time{}, nodes, earlier, limits)
	facts.Joins = slices.DeleteFunc(facts.Joins, func(join joinhealth.Join) bool { return join.Running.IsZero() }) // the start time is unknown
	p.forgetReboots(facts.Joins, nodes)
	facts.Cohorts = p.cohorts(facts.Pool.Recipe.Version, nodes, now)
	return PastPool{history.Of(facts), facts.Joins, facts.Pool.Capacity, nodes}, nil
}

// cohorts compares the nodes of a version with the others, as the controller did, or else by this look, which sees no pods.
func (p *Pool) cohorts(version string, nodes []joinhealth.Node, now time.Time) string {
	switch {
	case version == "":
		return ""
	case p.tracked != nil && p.tracked.Version == version && p.tracked.Cohorts != "":
		return p.tracked.Cohorts
	}
	var all []joinhealth.CohortNode
	for _, n := range nodes {
		if n.Name != "" && n.ExcludedReason == "" {
			all = append(all, joinhealth.CohortNode{Version: n.Version, Zone: n.Zone, Running: n.Running, Ready: n.Ready, Changed: n.Changed})
		}
	}
	return joinhealth.CohortsOf(now, version, all, p.limits).Line()
}

// known are the joins of present instances that the controller has judged: a failure is final.
func (p *Pool) known(nodes []joinhealth.Node) []joinhealth.Join {
	return slices.DeleteFunc(slices.Clone(p.judged), func(j joinhealth.Join) bool {
		return !slices.ContainsFunc(nodes, func(n joinhealth.Node) bool { return n.Instance == j.Instance })
	})
}

// Ready counts the pool's Nodes in the cluster, and the Ready nodes among them.
func (p *Pool) Ready() (nodes, ready int) {
	for _, n := range p.stripped {
		if nodestate.Ready(n) {
			ready++
		}
	}
	return len(p.stripped), ready
}

// images lists the pool's versions. images reads each pending version again, because a list may not distinguish an
// unfinished version from a complete version without tags.
func (f *Finder) images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error) {
	images, err := f.Cloud.Images(ctx, pool)
	if err != nil {
		return nil, err
	}
	for i := range images {
		if images[i].State != cloud.Pending {
			continue
		}
		seen, err := f.Cloud.Image(ctx, cloud.ImageRef{Pool: pool, Version: images[i].Version})
		if err != nil {
			return nil, err
		}
		if seen.State != cloud.Absent {
			images[i] = seen
		}
	}
	return images, nil
}
