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
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

const (
	// ofNoPool is when a node that belongs to no pool, such as one of the control plane, is looked at again.
	ofNoPool = 24 * time.Hour
	// joinLimit is the longest time from creation to now in which a node still counts as joining. One that was
	// there before Kamino was installed is older, and its last reboot no joining.
	joinLimit = 2 * time.Hour
)

// member is what a round keeps of a node.
type member struct {
	name     string
	uid      types.UID
	instance cloud.InstanceID
	label    string // empty if it has none
	created  time.Time
	ready    time.Time // since when; zero if it is not
}

// round labels what is due, of all nodes or of those without a label, and says when the next one is due.
func (l *Labeler) round(ctx context.Context, census cloud.InstanceLister, pace Pace, all bool) (next time.Duration, err error) {
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
		if err := l.label(ctx, census, pace, pool, members, soon); err != nil {
			wait := max(pace.Again, cloud.RetryAfter(err))
			if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.Unsupported) {
				wait = pace.Refresh // it will not change by asking
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

// gather lists nodes and sorts them by pool, leaving out those that nothing can be said about yet.
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
			pool, m, wait := l.look(&page[i], found[i], pace)
			switch {
			case pool == "":
				l.notBefore(m.uid, l.now().Add(wait))
			case wait > 0:
				soon(wait) // or sooner, when the watch shows that it changed
			default:
				pools[pool] = append(pools[pool], m)
			}
		}
		return nil
	})
	return pools, err
}

// poolsOf tells the pools of nodes, with one question.
func (l *Labeler) poolsOf(ctx context.Context, nodes []corev1.Node) ([]cloud.Membership, error) {
	values := make([]cloud.NodeValues, len(nodes))
	for i := range nodes {
		values[i] = membership.Values(&nodes[i])
	}
	return membership.Of(ctx, l.Cloud, values...)
}

// look tells the pool of a node, empty if it has none, and how long to wait until something can be said of it.
func (l *Labeler) look(n *corev1.Node, of cloud.Membership, pace Pace) (cloud.PoolID, member, time.Duration) {
	m := member{
		name: n.Name, uid: n.UID, instance: cloud.InstanceID(n.Spec.ProviderID), label: n.Labels[v1alpha1.VersionLabel],
		created: n.CreationTimestamp.Time,
	}
	if n.Spec.ProviderID == "" {
		return "", m, pace.Again
	}
	pool := of.Pool
	if pool == "" {
		return "", m, ofNoPool
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

// label asks the cloud once about a pool, tells the counts, and labels the members.
func (l *Labeler) label(ctx context.Context, census cloud.InstanceLister, pace Pace, pool cloud.PoolID, members []member, soon func(time.Duration)) error {
	instances, err := census.Instances(ctx, pool)
	if err != nil {
		return err
	}
	delete(l.pools, pool)
	byID := make(map[string]cloud.Instance, len(instances))
	counts := map[string]int{}
	for _, instance := range instances {
		byID[strings.ToLower(string(instance.ID))] = instance
		counts[v1alpha1.VersionLabelValue(instance.BuiltFrom)]++
	}
	if l.Listed != nil {
		l.Listed(pool, instances)
	}
	if l.Counted != nil {
		l.Counted(pool, counts)
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
			continue // it is gone, or another node has its name now
		case err != nil:
			problems = append(problems, err)
			continue
		}
		l.forget(m.uid)
		if names[strings.ToLower(string(m.instance))] == 1 { // of two Nodes that name one instance nobody knows which has joined
			l.joined(m, instance, version)
		}
	}
	return errors.Join(problems...)
}

// joined tells how long a node took that was just labelled for the first time and is Ready.
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
