package capture

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// readDeparture takes from the settings whether the donor returns, or from its reservation where that is all there is.
func readDeparture(w *observed) {
	f := &w.facts
	if !w.orphan {
		f.Leaves, f.GrowFirst = w.p.Spec.Settings.DonorLeaves(), w.p.Spec.Settings.GrowsFirst()
		return
	}
	f.Leaves = w.reservation != nil && w.reservation.Departure != nil
	f.GrowFirst = w.departure().GrowFirst
}

// departure as it was written down; the zero value if it was not.
func (w *observed) departure() v1alpha1.Departure {
	if w.record.Departure != nil {
		return *w.record.Departure
	}
	if w.reservation != nil && w.reservation.Departure != nil {
		return *w.reservation.Departure
	}
	return v1alpha1.Departure{}
}

// removing tells that it was written down that the donor's instance goes.
func (w *observed) removing() bool { return w.facts.Leaves && w.departure().Removing }

// leaves tells whether the donor can only be removed, as the planner does.
func leaves(w *observed) bool { return w.facts.Leaves && w.facts.Touched }

// takenAt is when the donor was taken out of service. One whose successor comes first serves until it is protected.
func (w *observed) takenAt() (at time.Time, taken bool) {
	d := w.departure()
	switch {
	case w.reservation == nil:
		return time.Time{}, false
	case !w.facts.Leaves || !w.facts.GrowFirst || w.record.LeaveBoot() != "" && d.TakenAt == nil:
		return w.reservation.ReservedAt.Time, true
	case d.TakenAt == nil:
		return w.reservation.ReservedAt.Time, false
	}
	return d.TakenAt.Time, true
}

// awaitsSuccessor tells that the donor's own course is open, so that the node has to be there which takes its place.
func awaitsSuccessor(w *observed) bool {
	f := &w.facts
	return f.Leaves && f.GrowFirst && f.Recorded && f.Lock == plan.Ours && f.Node != plan.NodeGone && f.Pod == plan.NoPod &&
		!f.MustBoot() && !f.Failed && !f.Deleting && !f.Overdue
}

// awaits tells that nothing but the successor is waited for.
func awaits(w *observed) bool {
	return awaitsSuccessor(w) && w.facts.Replacement != plan.ReplacementReady
}

// lookAhead looks for the successor of a donor that is to be taken. Until its pool is meant to have it, and while the node
// that it was taken for is there, nobody else is asked.
func (d departures) lookAhead(ctx context.Context, w *observed) error {
	f, departure := &w.facts, w.departure()
	if !awaitsSuccessor(w) {
		return nil
	}
	if departure.Target == 0 {
		f.Replacement = plan.ReplacementWanted
		return nil
	}
	if serves, err := d.recordedServes(ctx, departure); err != nil || serves {
		if serves {
			f.Replacement, w.successor = plan.ReplacementReady, departure.Successor
		}
		return err
	}
	pool, err := d.Cloud.Pool(ctx, w.pool)
	if err != nil {
		return err
	}
	w.capacity = pool.Capacity
	if w.capacity >= departure.Target {
		if w.successor, err = d.successor(ctx, w); err != nil {
			return err
		}
	}
	limit := w.p.Spec.Settings.Defaulted().OutOfService.ReadyTimeout.Duration
	switch {
	case w.successor != "":
		f.Replacement = plan.ReplacementReady
	case departure.TakenAt == nil && departure.DecidedAt != nil && d.now().Sub(departure.DecidedAt.Time) > limit:
		f.Replacement = plan.ReplacementLate
	case w.capacity < departure.Target:
		f.Replacement = plan.ReplacementWanted
	default:
		f.Replacement = plan.ReplacementAwaited
	}
	return nil
}

// recordedServes reports whether the successor that was recorded is there and takes pods.
func (d departures) recordedServes(ctx context.Context, departure v1alpha1.Departure) (bool, error) {
	if departure.Successor == "" {
		return false, nil
	}
	n, err := d.Kube.CoreV1().Nodes().Get(ctx, departure.Successor, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read node %s: %w", departure.Successor, err)
	}
	return err == nil && takesPods(n) && !madeSince(n, departure.TakenAt), nil // else another Node of the name
}

// madeSince reports whether a Node was made after the second of that time.
func madeSince(n *corev1.Node, at *metav1.Time) bool {
	return at != nil && n.CreationTimestamp.Sub(at.Time) >= time.Second
}

// takesPods tells whether what leaves the donor can go to the node.
func takesPods(n *corev1.Node) bool {
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

// lookBehind looks whether the place of a donor that is gone is filled, where its pool has not grown before.
func (d departures) lookBehind(ctx context.Context, w *observed) error {
	f := &w.facts
	if !w.held() || f.GrowFirst || f.Power != plan.InstanceGone || !w.removing() {
		return nil
	}
	pool, err := d.Cloud.Pool(ctx, w.pool)
	if err != nil {
		return err
	}
	if w.capacity = pool.Capacity; w.capacity < w.departure().Target {
		f.Replacement = plan.ReplacementWanted
	}
	return nil
}

// depart writes down what became of the donor's departure, in the record and in the reservation that it keeps.
func (d departures) depart(ctx context.Context, w *observed, change func(*v1alpha1.Departure)) error {
	departure := w.departure()
	departure.GrowFirst = w.facts.GrowFirst
	change(&departure)
	return d.record(ctx, w, func(r *v1alpha1.Record) {
		r.Departure = &departure
		if r.Reservation != nil {
			reservation := *r.Reservation
			reservation.Departure = &departure
			r.Reservation = &reservation
		}
	})
}

// enlarge has the pool grow by one: to what size is written down first, on the Prototype and on the Node, and looked at
// again. A pool that somebody else has made smaller since is to grow from there; one that somebody has made larger has
// grown.
func (d departures) enlarge(ctx context.Context, w *observed) error {
	pool, err := d.Cloud.Pool(ctx, w.pool)
	if err != nil {
		return err
	}
	target := w.departure().Target
	if target == 0 || pool.Capacity < target-1 {
		return d.decide(ctx, w, pool.Capacity+1)
	}
	if w.facts.Lock == plan.Ours {
		noted, err := d.reservations.Confirmed(ctx, w.node)
		switch {
		case err != nil:
			return err
		case noted == nil || !noted.Same(w.reservation.Holder) || noted.Departure == nil || noted.Departure.Target != target:
			return d.note(ctx, w)
		}
	}
	if pool.Capacity >= target {
		return nil
	}
	err = d.Cloud.SetCapacity(ctx, w.pool, pool.Capacity, target)
	switch {
	case cloud.Is(err, cloud.Conflict):
		return nil // somebody else wrote meanwhile: look again
	case err != nil:
		return err
	}
	d.grows(w)
	return nil
}

// decide writes down to what size the pool grows.
func (d departures) decide(ctx context.Context, w *observed, target int64) error {
	departure := w.departure()
	now := metav1.NewTime(d.now())
	after := departure.After
	if after == nil && w.facts.GrowFirst {
		youngest := w.p.CreationTimestamp
		err := node.Pages(ctx, d.Kube, "", func(page []corev1.Node) error {
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
	return d.depart(ctx, w, func(to *v1alpha1.Departure) {
		to.Target, to.After = target, after
		if to.DecidedAt == nil {
			to.DecidedAt = &now
		}
	})
}

// take writes down that the donor is taken out of service, and behind which node.
func (d departures) take(ctx context.Context, w *observed) error {
	if _, taken := w.takenAt(); taken {
		return nil
	}
	now := metav1.NewTime(d.now())
	return d.depart(ctx, w, func(to *v1alpha1.Departure) { to.TakenAt, to.Successor = &now, w.successor })
}

// remove has the cloud remove the donor's instance. That it does, and what size the pool then has to come back to, is written
// down first, and looked at again.
func (d departures) remove(ctx context.Context, w *observed) error {
	if !w.departure().Removing {
		var size int64
		if !w.facts.GrowFirst {
			pool, err := d.Cloud.Pool(ctx, w.pool)
			if err != nil {
				return err
			}
			size = pool.Capacity
		}
		return d.depart(ctx, w, func(to *v1alpha1.Departure) {
			to.Removing = true
			if !w.facts.GrowFirst {
				to.Target = size
			}
		})
	}
	remover, able := cloud.As[cloud.Remover](d.Cloud)
	if !able {
		return &cloud.Error{Kind: cloud.Unsupported, Op: "remove", Resource: string(w.id), Message: "this cloud's provider does not remove instances: remove it by hand"}
	}
	d.goes(w)
	_, err := remover.EnsureRemoved(ctx, w.id)
	return err
}

// deleteNode removes the Node of the instance that is gone, and no other of its name.
func (d departures) deleteNode(ctx context.Context, w *observed) error {
	err := d.Kube.CoreV1().Nodes().Delete(ctx, w.node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &w.node.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", w.node.Name, err)
	}
	return d.reservations.DropOf(ctx, w.p.UID)
}
