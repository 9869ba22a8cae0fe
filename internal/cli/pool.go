package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/membership"
)

// namedPool is a pool that a person named, with what the cluster knows of it.
type namedPool struct {
	id cloud.PoolID
	// nodes names the pool's Nodes by their instance.
	nodes map[cloud.InstanceID]string
	// prototypes of this pool. Without Kamino's definitions in the cluster there are none.
	prototypes []v1alpha1.Prototype
}

// clusterPools finds every pool that a Node or a Prototype belongs to: a pool that was shrunk to nothing,
// because its image is bad, can still be rolled back.
func (s *session) clusterPools(ctx context.Context) (map[cloud.PoolID]*namedPool, error) {
	pools := map[cloud.PoolID]*namedPool{}
	at := func(id cloud.PoolID) *namedPool {
		if id == "" {
			return nil
		}
		if pools[id] == nil {
			pools[id] = &namedPool{id: id, nodes: map[cloud.InstanceID]string{}}
		}
		return pools[id]
	}
	err := s.eachMember(ctx, func(node *corev1.Node, of cloud.Membership) {
		if p := at(of.Pool); p != nil {
			p.nodes[fold(cloud.InstanceID(node.Spec.ProviderID))] = node.Name
		}
	})
	if err != nil {
		return nil, err
	}
	all, err := s.cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	of, err := membership.OfPrototypes(ctx, s.provider, all)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if p := at(of[i].Pool); p != nil {
			p.prototypes = append(p.prototypes, all[i])
		}
	}
	return pools, nil
}

// fold is an ID as a key: clouds vary its case from answer to answer.
func fold(id cloud.InstanceID) cloud.InstanceID { return cloud.InstanceID(strings.ToLower(string(id))) }

// eachMember goes through the cluster's Nodes, each with its pool.
func (s *session) eachMember(ctx context.Context, do func(*corev1.Node, cloud.Membership)) error {
	return membership.Each(ctx, s.cluster.Kube, s.provider, "", func(n *corev1.Node, of cloud.Membership) error {
		do(n, of)
		return nil
	})
}

// findPool is the pool that a person means: by its name, its ID, or a part of its name that no other has.
func (s *session) findPool(ctx context.Context, name string) (*namedPool, error) {
	pools, err := s.clusterPools(ctx)
	if err != nil {
		return nil, err
	}
	id, err := s.meant(ctx, name, slices.Collect(maps.Keys(pools)))
	if err != nil {
		return nil, err
	}
	if pools[id] == nil { // it has no nodes, and never had a capture
		pools[id] = &namedPool{id: id, nodes: map[cloud.InstanceID]string{}}
	}
	return pools[id], nil
}

// meant is the pool that a person means: one of those that are known, or one that the cloud knows beside them.
func (s *session) meant(ctx context.Context, name string, known []cloud.PoolID) (cloud.PoolID, error) {
	id, err := cloud.Find(ctx, s.provider, name, known)
	var refused *cloud.Error
	if err != nil && !errors.As(err, &refused) {
		return "", refusedf("%w", err)
	}
	return id, err
}

// tell tells the pool's history. That the instances could not be counted is no reason against going back: it
// is noted, and the history says that they are not counted.
func (s *session) tell(ctx context.Context, p *namedPool, keep int) (history.History, error) {
	facts := history.Facts{Prototypes: p.prototypes, Keep: keep}
	var err error
	if facts.Pool, err = s.provider.Pool(ctx, p.id); err != nil {
		return history.History{}, err
	}
	if facts.Images, err = s.images(ctx, p.id); err != nil {
		return history.History{}, err
	}
	census, able := cloud.As[cloud.Census](s.provider)
	if !able {
		return history.Of(facts), nil
	}
	instances, err := census.Instances(ctx, p.id)
	if err != nil {
		s.note("Which nodes run which version can't be told: %s.", explain(err))
		return history.Of(facts), nil
	}
	facts.Counted = true
	for _, instance := range instances {
		facts.Members = append(facts.Members, history.Member{Name: s.nodeOf(p, instance.ID), BuiltFrom: instance.BuiltFrom})
	}
	return history.Of(facts), nil
}

// images lists the pool's versions. One that is listed as unfinished is looked at by itself: a list may not
// tell one that is being made from a complete one whose tags are being written.
func (s *session) images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error) {
	images, err := s.provider.Images(ctx, pool)
	if err != nil {
		return nil, err
	}
	for i := range images {
		if images[i].State != cloud.Pending {
			continue
		}
		seen, err := s.provider.Image(ctx, cloud.ImageRef{Pool: pool, Version: images[i].Version})
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
func (s *session) nodeOf(p *namedPool, id cloud.InstanceID) string {
	if name := p.nodes[fold(id)]; name != "" {
		return name
	}
	for other, name := range p.nodes {
		if s.provider.SameInstance(other, id) {
			return name
		}
	}
	return string(id)
}
