package capture

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// registerTimeout limits the wait for a started machine to register its deleted Node again.
const registerTimeout = 10 * time.Minute

// readRecord reads the Prototype's record. A record of another Prototype, or an unreadable record, counts as removed: the
// Lease repeats the reservation, and otherwise the capture fails with RecordLost.
func (e *Engine) readRecord(p *v1alpha1.Prototype) v1alpha1.Record {
	record, err := v1alpha1.RecordOf(p)
	if err != nil {
		e.Log.Error(err, "an unreadable record counts as removed", "prototype", p.Name)
		return v1alpha1.Record{}
	}
	return record
}

// recordLost reports whether the capture had a record, and has no readable record now.
func recordLost(p *v1alpha1.Prototype) bool {
	_, err := v1alpha1.RecordOf(p)
	return isMarked(p) && (err != nil || p.Status.Record == nil)
}

// readLock finds the holder of the Node. Any client may annotate Nodes, so only record and Lease prove the reservation. Another
// reservation applies only if its holder is an active capture of this node, or has the Lease.
func (h donorReservation) readLock(ctx context.Context, w *pass) error {
	f := &w.facts
	reservation, err := v1alpha1.ReservationOf(w.donor.node.Annotations)
	switch {
	case w.isOrphan:
		return h.readOrphan(ctx, w, reservation, err)
	case recordLost(w.p):
		return h.readLost(ctx, w, reservation)
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

// readOurs reads the lock of a Node with our reservation. Without a record, the Lease must confirm the reservation.
func (h donorReservation) readOurs(ctx context.Context, w *pass, shadow *v1alpha1.Reservation) error {
	f := &w.facts
	if f.Hold.Recorded && repeatsRecord(w.record, shadow) { // permit asks the Lease before each effect
		f.Hold.Lock = plan.Ours
		return nil
	}
	lease, err := h.reservations().Confirmed(ctx, w.donor.node)
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
func (h donorReservation) readLost(ctx context.Context, w *pass, shadow *v1alpha1.Reservation) error {
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
func (h donorReservation) ownLease(ctx context.Context, w *pass) (*v1alpha1.Reservation, error) {
	if w.donor.node != nil {
		lease, err := h.reservations().Confirmed(ctx, w.donor.node)
		if lease != nil && lease.UID != w.p.UID {
			lease = nil
		}
		return lease, err
	}
	all, err := h.reservations().All(ctx)
	for i := range all {
		if all[i].Reservation.UID == w.p.UID && all[i].Node == w.p.Spec.Donor.NodeName {
			return &all[i].Reservation, nil
		}
	}
	return nil, err
}

// readOrphan reads the lock of a Node whose Prototype is gone. Only the Lease is trusted.
func (h donorReservation) readOrphan(ctx context.Context, w *pass, shadow *v1alpha1.Reservation, unreadable error) error {
	lease, err := h.reservations().Held(ctx, w.donor.node, v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: w.p.Name, UID: w.p.UID})
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

// repeatsRecord reports whether the reservation repeats the record's order, return and removal.
func repeatsRecord(record v1alpha1.Record, r *v1alpha1.Reservation) bool {
	return (record.GeneralizeBootID == "" || r.GeneralizeBootID == record.GeneralizeBootID) &&
		(record.LeaveBoot() == "" || r.LeaveBoot() == record.LeaveBoot()) && (!record.Returning || r.ReturningSince != nil) &&
		(record.Replacement == nil || !record.Replacement.Removing || r.Replacement != nil && r.Replacement.Removing)
}

// useLease uses the Lease's reservation as the record.
func (w *pass) useLease(reservation *v1alpha1.Reservation) {
	w.donor.reservation = reservation
	w.record.Reservation = reservation
	w.record.GeneralizeBootID = cmp.Or(w.record.GeneralizeBootID, reservation.GeneralizeBootID)
	w.record.DownBootID = cmp.Or(w.record.DownBootID, reservation.DownBootID)
	w.record.Returning = w.record.Returning || reservation.ReturningSince != nil
	if w.record.Replacement == nil {
		w.record.Replacement = reservation.Replacement
	}
	if donor := w.p.Spec.Donor; w.record.Donor == nil && w.p.Spec.AddsDonor() {
		w.record.Donor = &donor
	}
}

// isHeldByOther reports whether another holder has the node: an active capture, or a holder of another kind with the
// Lease. Holders of an unknown kind release the node without our help.
func (h donorReservation) isHeldByOther(ctx context.Context, w *pass, holder v1alpha1.Holder) (bool, error) {
	if holder.Is(v1alpha1.HolderPrototype) {
		return h.isActiveCapture(ctx, holder, w.id)
	}
	lease, err := h.reservations().Confirmed(ctx, w.donor.node)
	return err == nil && lease != nil && lease.Same(holder), err
}

// isActiveCapture reports whether the holder is an active capture of this instance.
func (h donorReservation) isActiveCapture(ctx context.Context, holder v1alpha1.Holder, id cloud.InstanceID) (bool, error) {
	if !holder.Is(v1alpha1.HolderPrototype) || holder.Name == "" {
		return false, nil
	}
	p := &v1alpha1.Prototype{}
	err := h.Client.Get(ctx, client.ObjectKey{Name: holder.Name}, p)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read prototype %s, the holder of the donor's reservation: %w", holder.Name, err)
	}
	return p.UID == holder.UID && !p.Status.Terminal() && h.Cloud.SameInstance(cloud.InstanceID(p.Spec.Donor.ProviderID), id), nil
}

// readProtection reads the instance's scale-in protection before Protect and before the release. NotFound counts as no
// protection if the list of the pool lacks the instance, too.
func (h donorReservation) readProtection(ctx context.Context, w *pass) error {
	f := &w.facts
	if f.MustBoot() && !f.Hold.Returning && !f.Failed && !f.Deleting || mustBeRemoved(w) {
		return nil
	}
	hold, err := h.Cloud.Protection(ctx, w.id)
	if cloud.Is(err, cloud.NotFound) {
		err = h.confirmUnprotected(ctx, w)
	}
	if err != nil {
		return err
	}
	w.donor.protection = hold
	f.Hold.Protected = hold.Protected || hold.Token == ""
	f.Hold.ProtectionRestored = w.donor.reservation == nil || hold.Token == "" || hold.Token == tokenOf(w.donor.reservation)
	return nil
}

// readLastingProtection reads whether the pool keeps place or protection of a held instance that is gone.
func (h donorReservation) readLastingProtection(ctx context.Context, w *pass) error {
	if !w.isHeld() {
		return nil
	}
	hold, err := h.Cloud.Protection(ctx, w.id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return nil
	case err != nil || !hold.Lasts:
		return err
	}
	w.donor.protection, w.facts.Leaving.PlaceKept = hold, true
	w.facts.Hold.ProtectionRestored = w.donor.reservation == nil || hold.Token == tokenOf(w.donor.reservation)
	return nil
}

// tokenOf is the cloud's token for the restoration of the protection.
func tokenOf(r *v1alpha1.Reservation) string {
	return cmp.Or(r.Protection, cloud.TokenUnprotected)
}

// repeatRecord repeats the record's order and return on the Lease and the Node. Kamino can then release the donor even
// after a forced deletion of the Prototype.
func (h donorReservation) repeatRecord(ctx context.Context, w *pass) error {
	reservation := h.repeated(w)
	if _, err := h.reservations().Note(ctx, w.donor.node, reservation); err != nil {
		return err
	}
	w.donor.lease = &reservation
	return nil
}

// renewLease repeats the record on the Lease alone: another client has overwritten or removed the copy on the Node.
func (h donorReservation) renewLease(ctx context.Context, w *pass) error {
	reservation := h.repeated(w)
	if err := h.reservations().Renew(ctx, w.donor.node, reservation); err != nil {
		return err
	}
	w.donor.lease = &reservation
	return nil
}

// repeated is the reservation with the record's order, return and removal.
func (h donorReservation) repeated(w *pass) v1alpha1.Reservation {
	reservation := *w.donor.reservation
	reservation.GeneralizeBootID, reservation.DownBootID = w.record.GeneralizeBootID, w.record.DownBootID
	reservation.Replacement = cmp.Or(w.record.Replacement, reservation.Replacement)
	reservation.MissingSince, reservation.AgreedSince = nil, nil // who takes over looks twice again
	if w.record.Returning && reservation.ReturningSince == nil {
		since := metav1.NewTime(h.now())
		reservation.ReturningSince = &since
	}
	return reservation
}

// recordReturn records that the disk is no longer needed, and that the donor is started. A donor that another client
// stopped must also leave its last boot.
func (h donorReservation) recordReturn(ctx context.Context, w *pass) error {
	err := h.record(ctx, w, func(r *v1alpha1.Record) {
		r.Returning = true
		if r.LeaveBoot() == "" {
			r.DownBootID = lastBoot(w.donor.node)
		}
		if r.Reservation != nil {
			reservation, since := *r.Reservation, metav1.NewTime(h.now())
			reservation.GeneralizeBootID, reservation.DownBootID, reservation.ReturningSince = r.GeneralizeBootID, r.DownBootID, &since
			r.Reservation = &reservation
		}
	})
	if err != nil || w.isOrphan || w.donor.node == nil || w.facts.Hold.Lock != plan.Ours { // the reservation of an orphan is the record
		return err
	}
	w.donor.reservation = w.record.Reservation
	return h.noteRecord(ctx, w)
}

// noteRecord repeats the record just written, as the next pass would.
func (h donorReservation) noteRecord(ctx context.Context, w *pass) error {
	if err := h.permit(ctx, w, plan.Note); err != nil {
		return err
	}
	return h.repeatRecord(ctx, w)
}

// release restores the Node, and then forgets the reservation.
func (h donorReservation) release(ctx context.Context, w *pass) error {
	if err := h.restore(ctx, w); err != nil {
		return err
	}
	eventRecorder(h).released(w)
	if !w.facts.Hold.Recorded { // the Lease is the record, and is dropped
		return nil
	}
	return h.forget(ctx, w)
}

func (h donorReservation) restore(ctx context.Context, w *pass) error {
	n := w.donor.node
	if w.facts.Hold.Lock == plan.Overwritten { // no existing holder wrote this reservation
		n = w.donor.node.DeepCopy()
		delete(n.Annotations, v1alpha1.ReservationAnnotation)
	}
	if w.facts.Hold.Recorded {
		return h.reservations().Restore(ctx, n, *w.donor.reservation, nil) // forget drops the Lease
	}
	return h.reservations().Release(ctx, n, *w.donor.reservation, nil)
}

// lastBoot is the last reported boot ID, or a text that is no boot ID.
func lastBoot(n *corev1.Node) string {
	if n == nil || n.Status.NodeInfo.BootID == "" {
		return "unknown"
	}
	return n.Status.NodeInfo.BootID
}

// lookDeadlines compares the time out of service with the deadlines.
func (h donorReservation) lookDeadlines(w *pass) {
	if !w.isHeld() || w.donor.reservation == nil || w.facts.Donor.Patch == plan.PatchUnderWay {
		return
	}
	f, now := &w.facts, h.now()
	limit := w.p.Spec.Settings.Defaulted().OutOfService
	since, taken := w.outOfServiceSince()
	held := now.Sub(since)
	if !taken {
		held -= limit.ReadyTimeout.Duration // the donor serves while its replacement is awaited
	}
	f.Hold.Overdue = held > limit.Deadline.Duration
	f.Hold.ReadyOverdue = held > limit.Deadline.Duration+limit.ReadyTimeout.Duration
	since = w.returningSince()
	if since.IsZero() {
		return
	}
	if w.isOrphan {
		// An orphan may have waited for days: its timeout runs from the begin of the return.
		f.Hold.ReadyOverdue = now.Sub(since) > limit.ReadyTimeout.Duration
	}
	if w.donor.node == nil && now.Sub(since) > min(registerTimeout, limit.ReadyTimeout.Duration) {
		f.Hold.ReadyOverdue = true
	}
}

func (w *pass) returningSince() time.Time {
	for _, r := range []*v1alpha1.Reservation{w.donor.reservation, w.record.Reservation} {
		if r != nil && r.ReturningSince != nil {
			return r.ReturningSince.Time
		}
	}
	return time.Time{}
}
