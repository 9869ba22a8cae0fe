package capture

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// readRecord reads the Prototype's record. A record of another Prototype, or an unreadable record, counts as removed: the
// Lease repeats the reservation, and otherwise the capture fails with RecordLost.
func (r rooms) readRecord(p *v1alpha1.Prototype) v1alpha1.Record {
	record, err := v1alpha1.RecordOf(p)
	if err != nil {
		r.events.log.Error(err, "an unreadable record counts as removed", "prototype", p.Name)
		return v1alpha1.Record{}
	}
	return record
}

// holdCloud has the calls of a cloud.Provider that take an instance out of service and return it.
type holdCloud interface {
	ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error
	Unprotect(ctx context.Context, id cloud.InstanceID, token string) error
	EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error)
	EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error)
}

// hold reserves the donor, takes it out of service and returns it. permit asks again before each effect.
type hold struct {
	kube   kubernetes.Interface
	cloud  holdCloud
	leases node.Reservations
	store  store
	pods   pods
	events recorder
	now    clock
}

// repeatRecord repeats the record's order and return on the Lease and the Node. Kamino can then release the donor even
// after a forced deletion of the Prototype.
func (h hold) repeatRecord(ctx context.Context, w *pass) error {
	reservation := h.repeated(w)
	if _, err := h.leases.Note(ctx, w.donor.node, reservation); err != nil {
		return err
	}
	w.donor.lease = &reservation
	return nil
}

// renewLease repeats the record on the Lease alone: another client has overwritten or removed the copy on the Node.
func (h hold) renewLease(ctx context.Context, w *pass) error {
	reservation := h.repeated(w)
	if err := h.leases.Renew(ctx, w.donor.node, reservation); err != nil {
		return err
	}
	w.donor.lease = &reservation
	return nil
}

// repeated is the reservation with the record's order and return.
func (h hold) repeated(w *pass) v1alpha1.Reservation {
	reservation := *w.donor.reservation
	reservation.GeneralizeBootID, reservation.DownBootID = w.record.GeneralizeBootID, w.record.DownBootID
	reservation.MissingSince, reservation.AgreedSince = nil, nil // who takes over looks twice again
	if w.record.Returning && reservation.ReturningSince == nil {
		since := metav1.NewTime(h.now())
		reservation.ReturningSince = &since
	}
	return reservation
}

// recordReturn records that the disk is no longer needed, and that the donor is started. A donor that another client
// stopped must also leave its last boot.
func (h hold) recordReturn(ctx context.Context, w *pass) error {
	err := h.store.record(ctx, w, func(r *v1alpha1.Record) {
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
func (h hold) noteRecord(ctx context.Context, w *pass) error {
	if err := h.permit(ctx, w, plan.Note); err != nil {
		return err
	}
	return h.repeatRecord(ctx, w)
}

// release restores the Node, and then forgets the reservation.
func (h hold) release(ctx context.Context, w *pass) error {
	if err := h.restore(ctx, w); err != nil {
		return err
	}
	h.events.released(w)
	if !w.facts.Hold.Recorded { // the Lease is the record, and is dropped
		return nil
	}
	return h.forget(ctx, w)
}

func (h hold) restore(ctx context.Context, w *pass) error {
	n := w.donor.node
	if w.facts.Hold.Lock == plan.Overwritten { // no existing holder wrote this reservation
		n = w.donor.node.DeepCopy()
		delete(n.Annotations, v1alpha1.ReservationAnnotation)
	}
	before := *w.donor.reservation
	if w.facts.Copy.Wanted && w.facts.Donor.Patch == plan.PatchDone {
		before.Unschedulable = n.Spec.Unschedulable // the pioneer has served since its patch, so a cordon is a user's
	}
	if w.facts.Hold.Recorded {
		return h.leases.Restore(ctx, n, before, nil) // forget drops the Lease
	}
	return h.leases.Release(ctx, n, before, nil)
}

// lastBoot is the last reported boot ID, or a text that is no boot ID.
func lastBoot(n *corev1.Node) string {
	if n == nil || n.Status.NodeInfo.BootID == "" {
		return "unknown"
	}
	return n.Status.NodeInfo.BootID
}

// copyToRecord copies the reservation to the Prototype.
func (h hold) copyToRecord(ctx context.Context, w *pass) error {
	return h.store.record(ctx, w, w.remember(w.donor.reservation))
}

// relock writes the recorded reservation onto the Node again.
func (h hold) relock(ctx context.Context, w *pass) error {
	_, err := h.leases.Note(ctx, w.donor.node, *w.donor.reservation)
	return err
}

func (h hold) protect(ctx context.Context, w *pass) error {
	return h.cloud.ProtectFromScaleIn(ctx, w.id, tokenOf(w.donor.reservation))
}

func (h hold) unprotect(ctx context.Context, w *pass) error {
	return h.cloud.Unprotect(ctx, w.id, tokenOf(w.donor.reservation))
}

func (h hold) cordon(ctx context.Context, w *pass) error {
	return node.Cordon(ctx, h.kube, w.donor.node)
}

func (h hold) serve(ctx context.Context, w *pass) error {
	return h.leases.Serve(ctx, w.donor.node, *w.donor.reservation)
}

func (h hold) stop(ctx context.Context, w *pass) error {
	_, err := h.cloud.EnsureStopped(ctx, w.id)
	return err
}

func (h hold) start(ctx context.Context, w *pass) error {
	_, err := h.cloud.EnsureStarted(ctx, w.id)
	return err
}

// reserve writes the finalizer, then the Lease, the Node and the record, and ends the inspection. A deleted Prototype must keep the
// donor's release, and other captures must see the held donor.
func (h hold) reserve(ctx context.Context, w *pass) error {
	if err := h.store.begin(ctx, w.p); err != nil {
		return err
	}
	reservation := node.NewReservation(holderOf(w.p), w.donor.node, w.donor.protection.Token, metav1.NewTime(h.now()))
	if w.p.Spec.StaysInService() {
		reservation = v1alpha1.Reservation{Holder: holderOf(w.p), ReservedAt: metav1.NewTime(h.now()), Untouched: true}
		if err := h.leases.Hold(ctx, w.donor.node, reservation); err != nil {
			return err
		}
	} else {
		written, err := h.leases.Reserve(ctx, w.donor.node, reservation)
		if err != nil {
			return err
		}
		w.donor.node = written
	}
	remember := w.remember(&reservation)
	if w.disk.pod != nil { // the inspection is complete, and the generalize pod needs the name
		if err := h.pods.deletePodAndKey(ctx, w); err != nil {
			return err
		}
		remember = func(r *v1alpha1.Record) {
			w.remember(&reservation)(r)
			r.DiskCheckStartedAt = nil
		}
	}
	return h.store.record(ctx, w, remember)
}

// forget drops the Lease, and then the reservation in the record. The Lease of a donor whose instance is gone stays with its
// Node.
func (h hold) forget(ctx context.Context, w *pass) error {
	if keepsLease(w) {
		if err := h.renewLease(ctx, w); err != nil {
			return err
		}
		return h.store.record(ctx, w, func(r *v1alpha1.Record) { r.Reservation, r.DonorGone = nil, true })
	}
	if err := h.leases.DropOf(ctx, w.p.UID); err != nil {
		return err
	}
	return h.store.record(ctx, w, func(r *v1alpha1.Record) { r.Reservation = nil })
}

// keepsLease reports whether the Lease of a donor whose instance is gone outlives the capture. As long as the Node exists, the
// instance could exist after all: the sweep then finds and returns the node.
func keepsLease(w *pass) bool {
	return w.facts.Donor.Power == plan.InstanceGone && w.donor.node != nil && !w.isOrphan && !w.p.Spec.StaysInService()
}

// allows are the effects on the donor's machine and on its Node, each with the condition on the Lease of the node. The Lease
// repeats the record: see repeatsRecord.
var allows = map[plan.Action]func(lease v1alpha1.Reservation) bool{
	plan.Generalize: func(lease v1alpha1.Reservation) bool { return lease.GeneralizeBootID != "" },
	plan.Stop:       func(lease v1alpha1.Reservation) bool { return lease.LeaveBoot() != "" },
	plan.Start:      func(lease v1alpha1.Reservation) bool { return lease.LeaveBoot() != "" && lease.ReturningSince != nil },
}

// permit asks whether the action may change the donor: its Lease must allow exactly that, and no node in service is touched.
// The reservation of an orphan is its Lease, as read.
func (h hold) permit(ctx context.Context, w *pass, do plan.Action) error {
	allowed, guarded := allows[do]
	writesLease := do == plan.Note || do == plan.Relock
	if w.leavesDonor() || !guarded && !writesLease {
		return nil
	}
	if err := h.readLease(ctx, w); err != nil {
		return err
	}
	if inService(w, do) {
		return fmt.Errorf("node %s: %w", w.donor.node.Name, ErrInService)
	}
	if !guarded {
		return nil
	}
	if w.donor.reservation != nil && (w.donor.lease == nil || w.leaseIsOurs() && !repeatsRecord(w.record, w.donor.lease)) {
		if err := h.renewLease(ctx, w); err != nil {
			return err
		}
	}
	if !w.leaseIsOurs() || !allowed(*w.donor.lease) {
		return fmt.Errorf("%s of node %s: %w", do, w.donor.node.Name, node.ErrUnconfirmed)
	}
	return nil
}

// leavesDonor reports whether no action can harm a node in service: a machine without a Node serves no pods, a copied donor stays as it
// is, and the reservation of an orphan is its Lease.
func (w *pass) leavesDonor() bool { return w.isOrphan || w.facts.Copy.Wanted || w.donor.node == nil }

// readLease reads the Lease of the node, unless this pass has read or written a Lease of this capture.
func (h hold) readLease(ctx context.Context, w *pass) error {
	if w.leaseIsOurs() {
		return nil
	}
	lease, err := h.leases.Confirmed(ctx, w.donor.node)
	if err == nil {
		w.donor.lease = lease
	}
	return err
}

// inService reports whether the action would harm a node that is Ready and takes pods. A stop harms the node in the boot that
// it must leave. A new Lease would give the record alone a power over the node.
func inService(w *pass, do plan.Action) bool {
	if !nodestate.Ready(w.donor.node) || w.donor.node.Spec.Unschedulable || do == plan.Start {
		return false
	}
	forged := (do == plan.Note || do == plan.Relock) && !w.leaseIsOurs() && w.facts.MustBoot()
	return forged || acceptsPodsInOldBoot(w)
}

// acceptsPodsInOldBoot reports whether the node takes pods in the recorded boot, instead of a new boot.
func acceptsPodsInOldBoot(w *pass) bool {
	f := &w.facts
	return f.MustBoot() && !f.Donor.Rebooted && f.Donor.Node == plan.NodeReady && !f.Donor.Cordoned
}

// ErrInService is returned for a node that must boot or stop, but takes pods. Either a client uncordoned the
// node, or the record is wrong. It is also the reason of condition Stalled, as InService.
var ErrInService = errors.New("the node takes pods without the reboot that its reservation requires: a person must decide")

// ErrInstanceGone is returned for the reserved Node of an instance that the cloud does not have.
var ErrInstanceGone = errors.New(
	"the cloud has no instance for the node, and its reservation stays as long as the Node: if the instance is gone, delete the Node",
)
