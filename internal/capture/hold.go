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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// registerTimeout is how long a machine that was started may take to make its Node again, where somebody deleted it.
const registerTimeout = 10 * time.Minute

// readRecord reads the Prototype's record. One that is not readable is none: what the hold needs stands on the Node
// too, and if it does not, plan is told that it is lost.
func (l ledger) readRecord(p *v1alpha1.Prototype) v1alpha1.Record {
	record, err := v1alpha1.RecordOf(p)
	if err != nil {
		l.Log.Error(err, "the record is taken for removed", "prototype", p.Name)
		return v1alpha1.Record{}
	}
	return record
}

// recordLost tells that the capture has begun, by its finalizer, and that its record is gone.
func (w *world) recordLost() bool {
	_, err := v1alpha1.RecordOf(w.p)
	return controllerutil.ContainsFinalizer(w.p, v1alpha1.CaptureFinalizer) && (err != nil || w.p.Annotations[v1alpha1.RecordAnnotation] == "")
}

// readLock tells who holds the Node. Over a reservation that is ours by the record, another one counts only if its
// holder is there and has to do with this node: a hand may have written anything.
func (h hold) readLock(ctx context.Context, w *world) error {
	f := &w.facts
	reservation, err := v1alpha1.ReservationOf(w.node.Annotations)
	switch {
	case err == nil && reservation == nil:
		return nil
	case err == nil && reservation.UID == w.p.UID:
		f.Lock = plan.Ours
		w.takeOver(reservation)
		return nil
	case w.reservation == nil:
		f.Lock = plan.Theirs
		return nil
	case err == nil:
		w.over = reservation.Holder.String()
		there, err := h.holds(ctx, reservation.Holder, w.id)
		if err != nil {
			return err
		}
		if there {
			f.Lock = plan.Theirs
			return nil
		}
	default:
		w.over = "what cannot be read"
	}
	f.Lock = plan.Stray
	return nil
}

// takeOver completes the record by what the Node says of the hold.
func (w *world) takeOver(reservation *v1alpha1.Reservation) {
	w.reservation = reservation
	w.facts.Noted = (w.record.GeneralizeBootID == "" || reservation.GeneralizeBootID != "") &&
		(w.record.LeaveBoot() == "" || reservation.LeaveBoot() != "") && (!w.record.Returning || reservation.ReturningSince != nil) &&
		(w.record.Departure == nil || !w.record.Departure.Removing || reservation.Departure != nil && reservation.Departure.Removing)
	if w.facts.Recorded {
		return
	}
	w.record.Reservation = reservation
	w.record.GeneralizeBootID = cmp.Or(w.record.GeneralizeBootID, reservation.GeneralizeBootID)
	w.record.DownBootID = cmp.Or(w.record.DownBootID, reservation.DownBootID)
	w.record.Returning = w.record.Returning || reservation.ReturningSince != nil
	if w.record.Departure == nil {
		w.record.Departure = reservation.Departure
	}
}

// holds tells whether the holder is a capture of this very instance that has not ended. One of a kind that this version
// does not know is taken for present: nobody here can tell, and it gives back itself.
func (h hold) holds(ctx context.Context, holder v1alpha1.Holder, id cloud.InstanceID) (bool, error) {
	if !holder.Known() {
		return true, nil
	}
	if !holder.Is(v1alpha1.HolderPrototype) || holder.Name == "" {
		return false, nil
	}
	p := &v1alpha1.Prototype{}
	err := h.Client.Get(ctx, client.ObjectKey{Name: holder.Name}, p)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read prototype %s, which holds the donor by its reservation: %w", holder.Name, err)
	}
	return p.UID == holder.UID && !p.Status.Terminal() && h.Cloud.SameInstance(cloud.InstanceID(p.Spec.Donor.ProviderID), id), nil
}

// lookHold looks at how the instance stands to its pool, while that is still to be taken or given back. What is gone from
// the pool has nothing that could be.
func (h hold) lookHold(ctx context.Context, w *world) error {
	f := &w.facts
	if f.MustBoot() && !f.Returning && !f.Failed && !f.Deleting || leaves(w) {
		return nil
	}
	hold, err := h.Cloud.HoldOf(ctx, w.id)
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		return err
	}
	w.hold = hold
	f.Protected = hold.Held || hold.Token == ""
	f.ProtectionRestored = w.reservation == nil || hold.Token == "" || hold.Token == tokenOf(w.reservation)
	return nil
}

// lookKept looks whether the pool keeps anything of an instance that is gone while it is held.
func (h hold) lookKept(ctx context.Context, w *world) error {
	if !w.held() {
		return nil
	}
	hold, err := h.Cloud.HoldOf(ctx, w.id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return nil
	case err != nil || !hold.Lasts:
		return err
	}
	w.hold, w.facts.Kept = hold, true
	w.facts.ProtectionRestored = w.reservation == nil || hold.Token == tokenOf(w.reservation)
	return nil
}

// tokenOf is the token that the instance is given back by, also from a version that kept none.
func tokenOf(r *v1alpha1.Reservation) string {
	if r.Hold == "" { // without either, nothing is known to have held it: a hold that nobody lifts would hold the node for good
		return cloud.Protection(r.ScaleInProtected != nil && *r.ScaleInProtected).Token
	}
	return r.Hold
}

// note writes onto the Node what the record says of the order and the return, so that the donor can be given back
// even if the Prototype goes without its finalizer having been asked.
func (h hold) note(ctx context.Context, w *world) error {
	reservation := *w.reservation
	reservation.GeneralizeBootID, reservation.DownBootID = w.record.GeneralizeBootID, w.record.DownBootID
	reservation.Departure = cmp.Or(w.record.Departure, reservation.Departure)
	if w.record.Returning && reservation.ReturningSince == nil {
		since := metav1.NewTime(h.now())
		reservation.ReturningSince = &since
	}
	return node.Note(ctx, h.Kube, w.node, reservation)
}

// giveUpDisk writes down that the disk is no longer needed and the power comes back. A donor that is off without
// an order, because somebody stopped it, is awaited under another boot than its last one like any other.
func (h hold) giveUpDisk(ctx context.Context, w *world) error {
	return h.record(ctx, w, func(r *v1alpha1.Record) {
		r.Returning = true
		if r.LeaveBoot() == "" {
			r.DownBootID = lastBoot(w.node)
		}
		if r.Reservation != nil {
			reservation, since := *r.Reservation, metav1.NewTime(h.now())
			reservation.GeneralizeBootID, reservation.DownBootID, reservation.ReturningSince = r.GeneralizeBootID, r.DownBootID, &since
			r.Reservation = &reservation
		}
	})
}

// release gives the node back as it was, and the lock with it.
func (h hold) release(ctx context.Context, w *world) error {
	n := w.node
	if w.facts.Lock == plan.Stray { // what stands there is nobody's
		n = w.node.DeepCopy()
		delete(n.Annotations, v1alpha1.ReservationAnnotation)
	}
	return node.Release(ctx, h.Kube, n, *w.reservation, nil)
}

// lastBoot is the boot that the node has reported last, or a word that no boot has for a name.
func lastBoot(n *corev1.Node) string {
	if n == nil || n.Status.NodeInfo.BootID == "" {
		return "unknown"
	}
	return n.Status.NodeInfo.BootID
}

// lookDeadlines tells how long the donor has been held, and awaited.
func (h hold) lookDeadlines(w *world) {
	if !w.held() || w.reservation == nil {
		return
	}
	f, now := &w.facts, h.now()
	limit := w.p.Spec.Settings.Defaulted().OutOfService
	since, taken := w.takenAt()
	held := now.Sub(since)
	if !taken {
		held -= limit.ReadyTimeout.Duration // it serves while its successor is awaited
	}
	f.Overdue = held > limit.Deadline.Duration
	f.Hopeless = held > limit.Deadline.Duration+limit.ReadyTimeout.Duration
	since = w.returningSince()
	if since.IsZero() {
		return
	}
	if w.orphan {
		// Nobody knows for how long it was left alone: its time runs from when it was begun to be given back.
		f.Hopeless = now.Sub(since) > limit.ReadyTimeout.Duration
	}
	if w.node == nil && now.Sub(since) > min(registerTimeout, limit.ReadyTimeout.Duration) {
		f.Hopeless = true
	}
}

func (w *world) returningSince() time.Time {
	for _, r := range []*v1alpha1.Reservation{w.reservation, w.record.Reservation} {
		if r != nil && r.ReturningSince != nil {
			return r.ReturningSince.Time
		}
	}
	return time.Time{}
}
