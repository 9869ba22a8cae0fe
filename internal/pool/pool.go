// Package pool finds the pools of a cluster: which there are, which one a person means, how each of them stands, and what its
// versions have been. It looks, and decides nothing: what a text means is decided in package cloud, what a version is to its
// pool in package history.
package pool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/newcomer"
	"github.com/kamino-dev/kamino/internal/probation"
)

// Finder looks at one cluster and its cloud.
type Finder struct {
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Uncounted is told why a pool's instances could not be counted, which is no reason against going back. Nil for nobody.
	Uncounted func(error)
}

// Pool is a pool with what the cluster knows of it.
type Pool struct {
	ID cloud.PoolID
	// Prototypes of this pool. Without Kamino's definitions in the cluster there are none.
	Prototypes []v1alpha1.Prototype
	// nodes names the pool's Nodes by their instance.
	nodes map[cloud.InstanceID]string
	// stripped are the Nodes, as far as it is told from them how they joined.
	stripped []*corev1.Node
}

func newPool(id cloud.PoolID) *Pool { return &Pool{ID: id, nodes: map[cloud.InstanceID]string{}} }

// All finds every pool that a Node or a Prototype belongs to: a pool that was shrunk to nothing, because its image is bad, can
// still be rolled back.
func (f *Finder) All(ctx context.Context) (map[cloud.PoolID]*Pool, error) {
	pools := map[cloud.PoolID]*Pool{}
	at := func(id cloud.PoolID) *Pool {
		if pools[id] == nil {
			pools[id] = newPool(id)
		}
		return pools[id]
	}
	err := f.eachNode(ctx, func(n *corev1.Node, id cloud.PoolID) {
		p := at(id)
		p.nodes[fold(cloud.InstanceID(n.Spec.ProviderID))] = n.Name
		p.stripped = append(p.stripped, newcomer.Strip(n))
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
	return pools, nil
}

// fold is an ID as a key: clouds vary its case from answer to answer.
func fold(id cloud.InstanceID) cloud.InstanceID { return cloud.InstanceID(strings.ToLower(string(id))) }

// eachNode goes through the Nodes that belong to a pool. One of no pool, such as a control plane's own VM, is no error.
func (f *Finder) eachNode(ctx context.Context, do func(*corev1.Node, cloud.PoolID)) error {
	return membership.Each(ctx, f.Cluster.Kube, f.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool != "" {
			do(n, of.Pool)
		}
		return nil
	})
}

// Named is the pool that a person means: by its name, its ID, or a part of its name that no other has.
func (f *Finder) Named(ctx context.Context, text string) (*Pool, error) {
	pools, err := f.All(ctx)
	if err != nil {
		return nil, err
	}
	id, err := f.Meant(ctx, text, slices.Collect(maps.Keys(pools)))
	if err != nil {
		return nil, err
	}
	if pools[id] == nil { // it has no nodes, and never had a capture
		return newPool(id), nil
	}
	return pools[id], nil
}

// Meant is the pool that a person means: one of those that are known, or one that the cloud knows beside them. None, or several,
// is a cluster.Refused.
func (f *Finder) Meant(ctx context.Context, text string, known []cloud.PoolID) (cloud.PoolID, error) {
	id, err := cloud.Find(ctx, f.Cloud, text, known)
	var fromCloud *cloud.Error
	if err != nil && !errors.As(err, &fromCloud) {
		return "", cluster.Refusef("%w", err)
	}
	return id, err
}

// Some are the pools of the cluster's first nodes, as many as limit says, for whoever does not wait for all of many thousands.
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

// History tells what the pool's versions are to it. Keep judges as a capture with that setting would; zero is as the pool's last
// one.
func (f *Finder) History(ctx context.Context, p *Pool, keep int) (history.History, error) {
	facts := history.Facts{Prototypes: p.Prototypes, Keep: keep}
	var err error
	if facts.Pool, err = f.Cloud.Pool(ctx, p.ID); err != nil {
		return history.History{}, err
	}
	if facts.Images, err = f.images(ctx, p.ID); err != nil {
		return history.History{}, err
	}
	census, able := cloud.As[cloud.Census](f.Cloud)
	if !able {
		return history.Of(facts), nil
	}
	instances, err := census.Instances(ctx, p.ID)
	if err != nil {
		if f.Uncounted != nil {
			f.Uncounted(err)
		}
		return history.Of(facts), nil
	}
	facts.Counted = true
	for _, instance := range instances {
		facts.Members = append(facts.Members, history.Member{Name: f.nodeOf(p, instance.ID), BuiltFrom: instance.BuiltFrom})
	}
	now := time.Now()
	if f.Now != nil {
		now = f.Now()
	}
	seen := newcomer.Seen{Now: now, Instances: instances, Nodes: p.stripped, Images: facts.Images, Same: f.Cloud.SameInstance}
	facts.Joins = probation.Judge(seen.Now, time.Time{}, newcomer.Nodes(seen), nil, probation.Limits{})
	facts.Joins = slices.DeleteFunc(facts.Joins, func(join probation.Join) bool { return join.Running.IsZero() }) // nobody knows since when
	return history.Of(facts), nil
}

// images lists the pool's versions. One that is listed as unfinished is looked at by itself: a list may not tell one that is
// being made from a complete one whose tags are being written.
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

// nodeOf names an instance's Node, or the instance where it has not joined.
func (f *Finder) nodeOf(p *Pool, id cloud.InstanceID) string {
	if name := p.nodes[fold(id)]; name != "" {
		return name
	}
	for other, name := range p.nodes {
		if f.Cloud.SameInstance(other, id) {
			return name
		}
	}
	return string(id)
}
