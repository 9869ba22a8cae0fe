package nodelabel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

const (
	// noPoolInterval is the pause for a node without a pool, such as a control plane node.
	noPoolInterval = 24 * time.Hour
	// joinLimit is the age up to which a node can join. Older nodes existed before the installation of Kamino, and became
	// Ready after a reboot.
	joinLimit = 2 * time.Hour
)

// member is a node in a round.
type member struct {
	name     string
	uid      types.UID
	instance cloud.InstanceID
	label    string // empty if absent
	created  time.Time
	ready    time.Time // since when; zero if the node is not Ready
}

// round labels all nodes, or the nodes without a label, and returns the time until the next round.
func (l *Labeler) round(ctx context.Context, pace Pace, all bool) (next time.Duration, err error) {
	next = pace.Refresh
	soon := func(d time.Duration) { next = min(next, max(d, pace.Gather)) }
	pools, err := l.gather(ctx, pace, all, soon)
	if err != nil {
		return pace.Again, err
	}
	var problems []error
	for pool, members := range pools {
		if wait := l.pools[pool].Sub(l.now()); wait > 0 {
			soon(wait)
			continue
		}
		maxAge := time.Duration(0)
		if !all {
			maxAge = l.sinceNewest(members, pace)
		}
		if err := l.label(ctx, pace, pool, members, maxAge, soon); err != nil {
			wait := max(pace.Again, cloud.RetryAfter(err))
			if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.Unsupported) {
				wait = pace.Refresh // another request will not help
			}
			if l.pools == nil {
				l.pools = map[cloud.PoolID]time.Time{}
			}
			l.pools[pool] = l.now().Add(wait)
			soon(wait)
			problems = append(problems, fmt.Errorf("pool %s: %w", l.Cloud.PoolName(pool), err))
		}
		if ctx.Err() != nil {
			return next, ctx.Err()
		}
	}
	return next, errors.Join(problems...)
}

// gather lists nodes by pool, without nodes that cannot get a label yet.
func (l *Labeler) gather(ctx context.Context, pace Pace, all bool, soon func(time.Duration)) (map[cloud.PoolID][]member, error) {
	pools := map[cloud.PoolID][]member{}
	selector := unlabelled
	if all {
		selector = ""
	}
	err := node.Pages(ctx, l.Kube, selector, func(page []corev1.Node) error {
		page = slices.DeleteFunc(page, func(n corev1.Node) bool { return !l.interesting(n.UID) })
		found, err := l.poolsOf(ctx, page)
		if err != nil {
			return err
		}
		for i := range page {
			pool, m, wait := l.findPool(&page[i], found[i], pace)
			switch {
			case pool == "":
				l.notBefore(m.uid, l.now().Add(wait))
			case wait > 0:
				soon(wait) // or sooner, after a change in the watch
			default:
				pools[pool] = append(pools[pool], m)
			}
		}
		return nil
	})
	return pools, err
}

// poolsOf returns the pools of nodes, with one request.
func (l *Labeler) poolsOf(ctx context.Context, nodes []corev1.Node) ([]cloud.Membership, error) {
	values := make([]cloud.NodeValues, len(nodes))
	for i := range nodes {
		values[i] = membership.Values(&nodes[i])
	}
	return membership.Of(ctx, l.Cloud, values...)
}

// findPool returns the pool of a node, empty without a pool, and the time until the node can get a label.
func (l *Labeler) findPool(n *corev1.Node, of cloud.Membership, pace Pace) (cloud.PoolID, member, time.Duration) {
	m := member{
		name: n.Name, uid: n.UID, instance: cloud.InstanceID(n.Spec.ProviderID), label: n.Labels[v1alpha1.VersionLabel],
		created: n.CreationTimestamp.Time,
	}
	if n.Spec.ProviderID == "" {
		return "", m, pace.Again
	}
	pool := of.Pool
	if pool == "" {
		return "", m, noPoolInterval
	}
	if since, ready := nodestate.ReadySince(n); ready {
		m.ready = since
		return pool, m, 0
	}
	if m.label == "" {
		return pool, m, max(m.created.Add(pace.Patience).Sub(l.now()), 0)
	}
	return pool, m, 0
}

// sinceNewest is the age of the newest Node, at most pace.Again: a list since then has the instances of all Nodes, and a
// retry needs a new list.
func (l *Labeler) sinceNewest(members []member, pace Pace) time.Duration {
	age := pace.Again
	for _, m := range members {
		age = min(age, l.now().Sub(m.created))
	}
	return age
}

// label labels the members of a pool by the pool's instances.
func (l *Labeler) label(ctx context.Context, pace Pace, pool cloud.PoolID, members []member, maxAge time.Duration, soon func(time.Duration)) error {
	instances, err := l.Instances(ctx, pool, maxAge)
	if err != nil {
		return err
	}
	delete(l.pools, pool)
	byID := make(map[string]cloud.Instance, len(instances))
	for _, instance := range instances {
		byID[strings.ToLower(string(instance.ID))] = instance
	}
	names := map[string]int{}
	for _, m := range members {
		names[strings.ToLower(string(m.instance))]++
	}
	var problems []error
	for _, m := range members {
		instance, found := byID[strings.ToLower(string(m.instance))]
		if !found {
			soon(l.unlisted(m.uid, pace))
			continue
		}
		version := v1alpha1.VersionLabelValue(instance.BuiltFrom)
		if version == m.label {
			continue
		}
		err := node.Label(ctx, l.Kube, m.name, m.uid, v1alpha1.VersionLabel, version)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			continue // the node is gone, or another node has the name now
		case err != nil:
			problems = append(problems, err)
			continue
		}
		l.forget(m.uid)
		if names[strings.ToLower(string(m.instance))] == 1 { // of two Nodes with one instance, the joined Node is unknown
			l.joined(m, instance, version)
		}
	}
	return errors.Join(problems...)
}

// joined reports the join time of a Ready node after the first label.
func (l *Labeler) joined(m member, instance cloud.Instance, version string) {
	created := instance.CreatedAt
	if created.IsZero() {
		created = m.created
	}
	if l.Joined == nil || m.label != "" || m.ready.IsZero() || l.now().Sub(created) > joinLimit || m.ready.Before(created) {
		return
	}
	l.Joined(version, m.ready.Sub(created))
}
