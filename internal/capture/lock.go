package capture

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// instanceMatcher compares the IDs of instances, as a cloud.Provider does.
type instanceMatcher interface {
	SameInstance(a, b cloud.InstanceID) bool
}

// locks reads who holds the donor: the Lease, and its copies on the Node and in the record.
type locks struct {
	client client.Client
	cloud  instanceMatcher
	leases node.Reservations
}

// readLock finds the holder of the Node. Any client may annotate Nodes, so only record and Lease prove the reservation. Another
// reservation applies only if its holder is an active capture of this node, or has the Lease.
func (h locks) readLock(ctx context.Context, w *pass) error {
	f := &w.facts
	reservation, err := v1alpha1.ReservationOf(w.donor.node.Annotations)
	switch {
	case w.isOrphan:
		return h.readOrphan(ctx, w, reservation, err)
	case recordLost(w.p):
		return h.readLost(ctx, w, reservation)
	case w.p.Spec.StaysInService():
		return h.readLeaseAlone(ctx, w)
	case err == nil && reservation == nil:
		return nil
	case err == nil && reservation.UID == w.p.UID:
		return h.readOurs(ctx, w, reservation)
	case w.donor.reservation == nil:
		f.Hold.Lock = plan.Theirs
		return nil
	case err == nil:
		w.donor.otherHolder = reservation.Holder.String()
		there, err := h.isHeldByOther(ctx, w, reservation.Holder)
		if err != nil {
			return err
		}
		if there {
			f.Hold.Lock = plan.Theirs
			return nil
		}
	default:
		w.donor.otherHolder = "an unreadable reservation"
	}
	f.Hold.Lock = plan.Overwritten
	return nil
}

// readLeaseAlone reads the lock of a donor that a capture by copy leaves as it is: only the Lease names the holder.
func (h locks) readLeaseAlone(ctx context.Context, w *pass) error {
	if w.donor.reservation == nil && w.facts.IsOrdered() {
		return nil // released
	}
	lease, err := h.leases.Confirmed(ctx, w.donor.node)
	switch {
	case err != nil || lease == nil:
		return err
	case lease.UID != w.p.UID:
		w.facts.Hold.Lock, w.donor.otherHolder = plan.Theirs, lease.Holder.String()
		return nil
	}
	w.facts.Hold.Lock, w.donor.lease = plan.Ours, lease
	if !w.facts.Hold.Recorded {
		w.useLease(lease)
	}
	return nil
}

// readOurs reads the lock of a Node with our reservation. Without a record, the Lease must confirm the reservation.
func (h locks) readOurs(ctx context.Context, w *pass, shadow *v1alpha1.Reservation) error {
	f := &w.facts
	if f.Hold.Recorded && repeatsRecord(w.record, shadow) { // permit asks the Lease before each effect
		f.Hold.Lock = plan.Ours
		return nil
	}
	lease, err := h.leases.Confirmed(ctx, w.donor.node)
	w.donor.lease = lease
	ours := lease != nil && lease.UID == w.p.UID
	switch {
	case err != nil:
		return err
	case f.Hold.Recorded:
		f.Hold.Lock, f.Hold.Noted = plan.Ours, false
	case ours:
		f.Hold.Lock = plan.Ours
		w.useLease(lease)
	default:
		f.Hold.Lock, w.donor.otherHolder = plan.Theirs, "a reservation in this prototype's name that no Lease confirms"
	}
	return nil
}

// readLost rebuilds the reservation of a capture whose record is lost from the Lease, whatever the Node carries.
func (h locks) readLost(ctx context.Context, w *pass, shadow *v1alpha1.Reservation) error {
	lease, err := h.ownLease(ctx, w)
	switch {
	case err != nil:
		return err
	case lease != nil:
		w.useLease(lease)
		if w.p.Spec.Pioneer != nil { // how far the patch has come is unknown, so it ends like any patch in progress
			w.record.Patch = &v1alpha1.PatchRecord{PatchStatus: v1alpha1.PatchStatus{StartedAt: lease.ReservedAt}}
		}
		w.facts.Hold.Lock = plan.Ours
		if w.donor.node == nil {
			w.facts.Hold.Lock, w.facts.Hold.Recorded = plan.Unlocked, true // the Lease outlives the Node, as a record does
		}
	case shadow != nil:
		w.facts.Hold.Lock, w.donor.otherHolder = plan.Theirs, shadow.Holder.String()+", which no Lease confirms"
	}
	return nil
}

// ownLease returns the reservation in the Lease of the capture for its donor, also if the Node is gone; nil without a Lease.
func (h locks) ownLease(ctx context.Context, w *pass) (*v1alpha1.Reservation, error) {
	if w.donor.node != nil {
		lease, err := h.leases.Confirmed(ctx, w.donor.node)
		if lease != nil && lease.UID != w.p.UID {
			lease = nil
		}
		return lease, err
	}
	all, err := h.leases.All(ctx)
	for i := range all {
		if all[i].Reservation.UID == w.p.UID && all[i].Node == w.p.Spec.Donor.NodeName {
			return &all[i].Reservation, nil
		}
	}
	return nil, err
}

// readOrphan reads the lock of a Node whose Prototype is gone. Only the Lease is trusted.
func (h locks) readOrphan(ctx context.Context, w *pass, shadow *v1alpha1.Reservation, unreadable error) error {
	lease, err := h.leases.Held(ctx, w.donor.node, holderOf(w.p))
	if err != nil {
		return err
	}
	w.facts.Hold.Lock = plan.Ours
	if unreadable != nil || shadow != nil && !shadow.Same(lease.Holder) {
		w.facts.Hold.Lock, w.donor.otherHolder = plan.Overwritten, "a reservation that its Lease does not confirm"
	}
	w.useLease(lease)
	return nil
}

// repeatsRecord reports whether the reservation repeats the record's order and return.
func repeatsRecord(record v1alpha1.Record, r *v1alpha1.Reservation) bool {
	return (record.GeneralizeBootID == "" || r.GeneralizeBootID == record.GeneralizeBootID) &&
		(record.LeaveBoot() == "" || r.LeaveBoot() == record.LeaveBoot()) && (!record.Returning || r.ReturningSince != nil)
}

// useLease uses the Lease's reservation as the record.
func (w *pass) useLease(reservation *v1alpha1.Reservation) {
	w.donor.reservation = reservation
	w.record.Reservation = reservation
	w.record.GeneralizeBootID = cmp.Or(w.record.GeneralizeBootID, reservation.GeneralizeBootID)
	w.record.DownBootID = cmp.Or(w.record.DownBootID, reservation.DownBootID)
	w.record.Returning = w.record.Returning || reservation.ReturningSince != nil
}

// isHeldByOther reports whether another holder has the node: an active capture, or a holder of another kind with the
// Lease. Holders of an unknown kind release the node without our help.
func (h locks) isHeldByOther(ctx context.Context, w *pass, holder v1alpha1.Holder) (bool, error) {
	if holder.Is(v1alpha1.HolderPrototype) {
		return h.isActiveCapture(ctx, holder, w.id)
	}
	lease, err := h.leases.Confirmed(ctx, w.donor.node)
	return err == nil && lease != nil && lease.Same(holder), err
}

// isActiveCapture reports whether the holder is an active capture of this instance.
func (h locks) isActiveCapture(ctx context.Context, holder v1alpha1.Holder, id cloud.InstanceID) (bool, error) {
	if !holder.Is(v1alpha1.HolderPrototype) || holder.Name == "" {
		return false, nil
	}
	p := &v1alpha1.Prototype{}
	err := h.client.Get(ctx, client.ObjectKey{Name: holder.Name}, p)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read prototype %s, the holder of the donor's reservation: %w", holder.Name, err)
	}
	return p.UID == holder.UID && !p.Status.Terminal() && h.cloud.SameInstance(cloud.InstanceID(p.Spec.Donor.ProviderID), id), nil
}
