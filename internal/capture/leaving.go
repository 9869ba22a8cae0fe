package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// leavingCloud has the calls of a cloud.Provider that change the size of a pool.
type leavingCloud interface {
	membership.Registry
	instanceLister
	Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error)
	BuiltFrom(pool cloud.PoolID, instance cloud.Instance) string
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	SetCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error
	EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error)
}

// leaving removes donors that do not return: the pool grows by a replacement, and the instance is removed with its Node. A pool
// also grows by the donor of a pioneer.
type leaving struct {
	kube    kubernetes.Interface
	cloud   leavingCloud
	leases  node.Reservations
	donors  donorReader
	locks   locks
	hold    hold
	store   store
	witness witness
	events  recorder
	now     clock
}

// readDeparture reads from the settings whether the donor returns. Without a Prototype, the reservation has the answer.
func readDeparture(w *pass) {
	f := &w.facts
	if w.isOrphan {
		f.Leaving.Replaced = w.donor.reservation != nil && w.donor.reservation.Replacement != nil
		f.Leaving.GrowFirst, f.Leaving.Added = w.removalRecord().GrowFirst, w.removalRecord().Added
	} else {
		f.Leaving.Replaced, f.Leaving.GrowFirst, f.Leaving.Added = w.p.Spec.ReplacesDonor(), w.p.Spec.GrowsFirst(), w.p.Spec.AddsDonor()
	}
	f.Leaving.Decided = w.isRemoving()
}

// needsReplacement reports whether the capture needs the donor's replacement before its next step.
func needsReplacement(w *pass) bool {
	f := &w.facts
	return f.Leaving.Replaced && f.Leaving.GrowFirst && !f.Leaving.Added && f.Hold.Recorded && f.Hold.Lock == plan.Ours && f.Donor.Node != plan.NodeGone && f.Disk.Pod == plan.NoPod &&
		!f.MustBoot() && !f.Failed && !f.Deleting && !f.Hold.Overdue &&
		f.Donor.Patch != plan.PatchUnderWay
}

// readReplacement looks for the replacement of a donor before the drain. The cloud is not asked before the growth is
// recorded, nor while the recorded replacement serves.
func (d leaving) readReplacement(ctx context.Context, w *pass) error {
	f, replacement := &w.facts, w.removalRecord()
	if !needsReplacement(w) {
		_, taken := w.outOfServiceSince()
		f.Leaving.MustTakeOut = f.Leaving.Added && !taken && replacement.OutOfServiceSince == nil
		return nil
	}
	if replacement.Target == 0 {
		f.Leaving.Replacement = plan.ReplacementWanted
		return nil
	}
	var err error
	if w.donor.replacement, err = d.recordedNode(ctx, replacement); err != nil {
		return err
	}
	if w.donor.replacement != nil {
		f.Leaving.Replacement = plan.ReplacementReady
		return nil
	}
	pool, err := d.cloud.Pool(ctx, w.pool)
	if err != nil {
		return err
	}
	w.donor.capacity = pool.Capacity
	if w.donor.capacity >= replacement.Target {
		if w.donor.replacement, err = d.findNewNode(ctx, w, acceptsPods); err != nil {
			return err
		}
	}
	limit := w.p.Spec.Settings.Defaulted().OutOfService.ReadyTimeout.Duration
	switch {
	case w.donor.replacement != nil:
		f.Leaving.Replacement, f.Leaving.MustTakeOut = plan.ReplacementReady, w.donor.replacement.Name != replacement.Node
	case replacement.OutOfServiceSince == nil && replacement.DecidedAt != nil && d.now().Sub(replacement.DecidedAt.Time) > limit:
		f.Leaving.Replacement = plan.ReplacementLate
	case w.donor.capacity < replacement.Target:
		f.Leaving.Replacement = plan.ReplacementWanted
	default:
		f.Leaving.Replacement = plan.ReplacementAwaited
	}
	return nil
}

// recordedNode returns the recorded replacement if it takes pods, else nil.
func (d leaving) recordedNode(ctx context.Context, replacement v1alpha1.DonorReplacement) (*corev1.Node, error) {
	if replacement.Node == "" {
		return nil, nil
	}
	n, err := d.kube.CoreV1().Nodes().Get(ctx, replacement.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", replacement.Node, err)
	case !acceptsPods(n) || isCreatedAfter(n, replacement.OutOfServiceSince): // a Node of the same name that is younger is another Node
		return nil, nil
	}
	return n, nil
}

// isCreatedAfter reports whether the Node was created a second or more after the time.
func isCreatedAfter(n *corev1.Node, at *metav1.Time) bool {
	return at != nil && n.CreationTimestamp.Sub(at.Time) >= time.Second
}

// acceptsPods reports whether the donor's pods can move to the node.
func acceptsPods(n *corev1.Node) bool {
	if !nodestate.Available(n) || n.DeletionTimestamp != nil {
		return false
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" || taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	return true
}

// readUnfilledPlace reports whether the pool has replaced a removed donor, unless the pool grew first.
func (d leaving) readUnfilledPlace(ctx context.Context, w *pass) error {
	f := &w.facts
	if !w.isHeld() || f.Leaving.GrowFirst || f.Donor.Power != plan.InstanceGone || !w.isRemoving() {
		return nil
	}
	pool, err := d.cloud.Pool(ctx, w.pool)
	if err != nil {
		return err
	}
	if w.donor.capacity = pool.Capacity; w.donor.capacity < w.removalRecord().Target {
		f.Leaving.Replacement = plan.ReplacementWanted
	}
	return nil
}

// recordReplacement writes the replacement into the record and its reservation.
func (d leaving) recordReplacement(ctx context.Context, w *pass, change func(*v1alpha1.DonorReplacement)) error {
	replacement := w.removalRecord()
	replacement.GrowFirst, replacement.Added = w.facts.Leaving.GrowFirst, w.facts.Leaving.Added
	change(&replacement)
	return d.store.record(ctx, w, func(r *v1alpha1.Record) {
		r.Replacement = &replacement
		if r.Reservation != nil {
			reservation := *r.Reservation
			reservation.Replacement = &replacement
			r.Reservation = &reservation
		}
	})
}

// enlarge grows the pool by one. Prototype and Node record the target size first. If another client shrank the pool, the target
// is lowered; if another client grew the pool, the target is reached.
func (d leaving) enlarge(ctx context.Context, w *pass) error {
	if w.facts.Growth.Awaited { // before the first effect
		if err := d.store.begin(ctx, w.p); err != nil {
			return err
		}
	}
	pool, err := d.cloud.Pool(ctx, w.pool)
	if err != nil {
		return err
	}
	target := w.removalRecord().Target
	if target == 0 || pool.Capacity < target-1 {
		return d.recordTarget(ctx, w, pool.Capacity+1)
	}
	if w.facts.Hold.Lock == plan.Ours {
		noted, err := d.leases.Confirmed(ctx, w.donor.node)
		switch {
		case err != nil:
			return err
		case noted == nil || !noted.Same(w.donor.reservation.Holder) || noted.Replacement == nil || noted.Replacement.Target != target:
			return d.hold.repeatRecord(ctx, w)
		}
	}
	if pool.Capacity >= target {
		return nil
	}
	err = d.cloud.SetCapacity(ctx, w.pool, pool.Capacity, target)
	switch {
	case cloud.Is(err, cloud.Conflict):
		return nil // another client wrote meanwhile: the next pass looks again
	case err != nil:
		return err
	}
	d.events.grows(w)
	return nil
}

// recordTarget records the target size of the pool.
func (d leaving) recordTarget(ctx context.Context, w *pass, target int64) error {
	replacement := w.removalRecord()
	now := metav1.NewTime(d.now())
	after := replacement.NewestNodeAt
	if after == nil && w.facts.Leaving.GrowFirst {
		youngest := w.p.CreationTimestamp
		err := node.Pages(ctx, d.kube, "", func(page []corev1.Node) error {
			for i := range page {
				if at := page[i].CreationTimestamp; youngest.Before(&at) {
					youngest = at
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		after = &youngest
	}
	unregistered := replacement.Unregistered
	if w.facts.Leaving.Added && replacement.Target == 0 {
		var err error
		if unregistered, err = d.unregistered(ctx, w, nil); err != nil {
			return err
		}
	}
	return d.recordReplacement(ctx, w, func(to *v1alpha1.DonorReplacement) {
		to.Target, to.NewestNodeAt, to.Unregistered = target, after, unregistered
		if to.DecidedAt == nil {
			to.DecidedAt = &now
		}
	})
}

// errCarryOverDenied is the API server's refusal to write labels and taints of the replacement.
var errCarryOverDenied = errors.New("the replacement lacks labels and taints of the donor")

// takeOut records the begin of the time out of service, and the replacement. Before, the replacement gets the labels and
// taints that the settings carry over, because the donor's pods may select them.
func (d leaving) takeOut(ctx context.Context, w *pass) error {
	name := ""
	if w.donor.replacement != nil {
		name = w.donor.replacement.Name
		if err := node.CarryOver(ctx, d.kube, w.donor.node, w.donor.replacement, w.p.Spec.Settings.Donor.CarryOver); apierrors.IsForbidden(err) ||
			apierrors.IsInvalid(err) {
			return fmt.Errorf("%w: %w", errCarryOverDenied, err)
		} else if err != nil {
			return err
		}
	}
	now := metav1.NewTime(d.now())
	return d.recordReplacement(ctx, w, func(to *v1alpha1.DonorReplacement) {
		to.Node = name
		if to.OutOfServiceSince == nil {
			to.OutOfServiceSince = &now
		}
	})
}

// remove asks the cloud to remove the donor's instance. The removal and the pool's target size are recorded first.
func (d leaving) remove(ctx context.Context, w *pass) error {
	if w.facts.Growth.Awaited {
		return d.removeUnregistered(ctx, w)
	}
	if !w.removalRecord().Removing {
		var size int64
		if !w.facts.Leaving.GrowFirst {
			pool, err := d.cloud.Pool(ctx, w.pool)
			if err != nil {
				return err
			}
			size = pool.Capacity
		}
		return d.recordReplacement(ctx, w, func(to *v1alpha1.DonorReplacement) {
			to.Removing = true
			if !w.facts.Leaving.GrowFirst {
				to.Target = size
			}
		})
	}
	d.events.goes(w)
	_, err := d.cloud.EnsureRemoved(ctx, w.id)
	return err
}

// deleteNode removes the Node of the removed instance by UID, and then its Lease.
func (d leaving) deleteNode(ctx context.Context, w *pass) error {
	err := d.kube.CoreV1().Nodes().Delete(ctx, w.donor.node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &w.donor.node.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", w.donor.node.Name, err)
	}
	return d.leases.DropOf(ctx, w.p.UID)
}

// findNewNode returns the oldest Node that joined after the growth and fits; nil without such a Node. Any client may create
// Nodes: the new Node must be the only Node of an instance, with a Lease from the kubelet.
func (d leaving) findNewNode(ctx context.Context, w *pass, fits func(*corev1.Node) bool) (*corev1.Node, error) {
	after := w.removalRecord().NewestNodeAt
	var all, candidates []*corev1.Node
	err := membership.Each(ctx, d.kube, d.cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool != w.pool {
			return nil
		}
		all = append(all, n)
		if n.Name != w.p.Spec.Donor.NodeName && fits(n) && (after == nil || n.CreationTimestamp.After(after.Time)) {
			candidates = append(candidates, n)
		}
		return nil
	})
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	without, err := node.WithoutKubelet(ctx, d.kube, candidates, func() []*corev1.Node { return all })
	if err != nil && !apierrors.IsForbidden(err) { // without permission to read Leases the kubelet check is skipped
		return nil, err
	}
	candidates = slices.DeleteFunc(candidates, func(n *corev1.Node) bool { return without[n.UID] || !d.isAlone(n, all, without) })
	slices.SortStableFunc(candidates, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	has, err := d.instancesOf(ctx, w.pool)
	if err != nil {
		return nil, err
	}
	for _, n := range candidates {
		if has(cloud.InstanceID(n.Spec.ProviderID)) {
			return n, nil
		}
	}
	return nil, nil
}

// isAlone reports whether no further Node with a kubelet names the same instance.
func (d leaving) isAlone(n *corev1.Node, all []*corev1.Node, without map[types.UID]bool) bool {
	return !slices.ContainsFunc(all, func(other *corev1.Node) bool {
		return other.UID != n.UID && !without[other.UID] && d.cloud.SameInstance(cloud.InstanceID(other.Spec.ProviderID), cloud.InstanceID(n.Spec.ProviderID))
	})
}

// instancesOf returns a function that reports whether the pool has an instance that is not being removed.
func (d leaving) instancesOf(ctx context.Context, pool cloud.PoolID) (has func(cloud.InstanceID) bool, err error) {
	instances, err := d.cloud.Instances(ctx, pool)
	return func(id cloud.InstanceID) bool {
		return slices.ContainsFunc(instances, func(i cloud.Instance) bool { return !i.Removing && d.cloud.SameInstance(i.ID, id) })
	}, err
}
