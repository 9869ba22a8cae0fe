package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// Every effect asks again for the right to exactly that effect. The decision before it may rest on a record that no capture
// of this process has written.

// allows are the effects on the donor's machine and on its Node, each with the condition on the Lease of the node. The Lease
// repeats the record: see repeatsRecord.
var allows = map[plan.Action]func(lease v1alpha1.Reservation) bool{
	plan.Generalize: func(lease v1alpha1.Reservation) bool { return lease.GeneralizeBootID != "" },
	plan.Stop:       func(lease v1alpha1.Reservation) bool { return lease.LeaveBoot() != "" },
	plan.Start:      func(lease v1alpha1.Reservation) bool { return lease.LeaveBoot() != "" && lease.ReturningSince != nil },
	plan.Remove:     mayRemove,
	plan.DeleteNode: mayRemove, // the cloud has no instance any more
}

// mayRemove reports whether the reservation lets the instance go: a donor with a changed disk that does not return, or a node
// by which the pool has grown.
func mayRemove(lease v1alpha1.Reservation) bool {
	return lease.Replacement != nil && (lease.GeneralizeBootID != "" || lease.Replacement.Added)
}

// permit asks whether the action may change the donor: its Lease must allow exactly that, and no node in service is touched.
// The reservation of an orphan is its Lease, as read.
func (h donorReservation) permit(ctx context.Context, w *pass, do plan.Action) error {
	allowed, guarded := allows[do]
	writesLease := do == plan.Note || do == plan.Relock
	if w.isOrphan || w.donor.node == nil || !guarded && !writesLease { // a machine without a Node serves no pods
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

// leaseIsOurs reports whether the Lease of the node, as read, names this capture.
func (w *pass) leaseIsOurs() bool { return w.donor.lease != nil && w.donor.lease.UID == w.p.UID }

// readLease reads the Lease of the node, unless this pass has read or written a Lease of this capture.
func (h donorReservation) readLease(ctx context.Context, w *pass) error {
	if w.leaseIsOurs() {
		return nil
	}
	lease, err := h.reservations().Confirmed(ctx, w.donor.node)
	if err == nil {
		w.donor.lease = lease
	}
	return err
}

// inService reports whether the action would harm a node that is Ready and takes pods. A stop harms the node in the boot that
// it must leave, and a removal in any boot. A new Lease would give the record alone a power over the node.
func inService(w *pass, do plan.Action) bool {
	if !nodestate.Ready(w.donor.node) || w.donor.node.Spec.Unschedulable || do == plan.Start {
		return false
	}
	switch do {
	case plan.Remove, plan.DeleteNode:
		return true
	case plan.Note, plan.Relock:
		return !w.leaseIsOurs() && w.facts.MustBoot() || acceptsPodsInOldBoot(w)
	default:
		return acceptsPodsInOldBoot(w)
	}
}

// deniedError is a setting that the process allows no more, or has never allowed.
type deniedError struct{ cloud.Refusal }

func (d *deniedError) Error() string { return d.Message }

// mayRun asks whether a pod with the image of the settings may run on a node.
func mayRun(e *Engine, p *v1alpha1.Prototype) error {
	return denied(admission.Image(&admission.Case{Prototype: p, Image: e.Image, AllowedImages: e.AllowedImages}))
}

// mayGeneralize asks whether the pod of the order may run: its image, and the user's rules only with the recorded digest.
func (d pods) mayGeneralize(w *pass) error {
	if err := mayRun(d.Engine, w.p); err != nil {
		return err
	}
	if w.p.Spec.Settings.Generalize.Rules != "" && w.record.RulesDigest == "" {
		return errors.New("the record of the order names no digest of the rules in settings.generalize.rules")
	}
	return nil
}

// mayApply asks whether the user's rules are valid, before their digest enters an order.
func (o orders) mayApply(ctx context.Context, p *v1alpha1.Prototype) error {
	found, err := preflight(o).userRules(ctx, p)
	if err != nil || found.Missing { // the reader of the digest reports missing rules
		return err
	}
	return denied(admission.RulesOf(&admission.Case{Prototype: p, Namespace: o.podNamespace(), Rules: admission.Found(found)}))
}

func denied(refusals []cloud.Refusal, err error) error {
	if err != nil || len(refusals) == 0 {
		return err
	}
	return &deniedError{refusals[0]}
}
