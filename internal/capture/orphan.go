package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Orphan makes one step of the release of a node whose Prototype is gone or terminal. The Lease, the only record, goes last.
// Done: the holder does not hold the node. node.ErrUnconfirmed: no Lease. ErrInService: a person must decide.
func (e *Engine) Orphan(ctx context.Context, name string, holder v1alpha1.Holder) (Result, error) {
	if !holder.Is(v1alpha1.HolderPrototype) {
		return Result{}, fmt.Errorf("node %s is held by %s, not by a capture", name, holder)
	}
	key := "node/" + name // no Prototype can have this name
	result, err := e.rooms().returnOrphan(ctx, name, holder)
	if err != nil {
		return Result{After: e.retries.delay(key, err, e.now())}, err
	}
	if result.After == 0 { // a wait is no success
		e.retries.reset(key)
	}
	return result, nil
}

// returnOrphan makes one step of the release, as Orphan.
func (r rooms) returnOrphan(ctx context.Context, name string, holder v1alpha1.Holder) (Result, error) {
	w, err := r.donors.findOrphan(ctx, name, holder)
	if err != nil || w == nil {
		return Result{Done: err == nil}, err
	}
	if err := r.lookOrphan(ctx, w); err != nil {
		return Result{}, errors.Join(err, r.actWithoutCloud(ctx, fromOrphan(w.p), err))
	}
	if acceptsPodsInOldBoot(w) {
		return Result{}, fmt.Errorf("node %s: %w", name, ErrInService)
	}
	decision := plan.Orphan(w.facts)
	r.events.log.V(1).Info("decided", "node", name, "holder", holder.Name, "decision", decision.String())
	switch {
	case decision.Do == plan.Wait && w.facts.Donor.Power == plan.InstanceGone:
		return Result{}, fmt.Errorf("node %s: %w", name, ErrInstanceGone)
	case decision.Do == plan.Wait:
		return Result{After: pollDelay(w.p, decision.Why, r.donors.now())}, nil
	}
	if err := r.act(ctx, w, decision); err != nil {
		return Result{}, fmt.Errorf("return node %s: %w", name, errors.Join(err, r.actWithoutCloud(ctx, fromOrphan(w.p), err)))
	}
	return Result{}, nil
}

// findOrphan returns the state of the node as the donor of a deleted Prototype. The result is nil if the holder does
// not hold the node, or if the capture is still active.
func (h donorReader) findOrphan(ctx context.Context, name string, holder v1alpha1.Holder) (*pass, error) {
	n, err := h.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, h.leases.DropOf(ctx, holder.UID)
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	if held, err := h.locks.heldBy(ctx, n, holder); err != nil || !held {
		return nil, err
	}
	id := cloud.InstanceID(n.Spec.ProviderID)
	if there, err := h.locks.isActiveCapture(ctx, holder, id); err != nil || there {
		return nil, err
	}
	p, now := &v1alpha1.Prototype{}, metav1.NewTime(h.now())
	p.Name, p.UID, p.DeletionTimestamp = holder.Name, holder.UID, &now
	p.Spec.Donor = v1alpha1.Donor{NodeName: name, ProviderID: n.Spec.ProviderID}
	w := fromOrphan(p)
	w.donor.node = n
	return w, nil
}

// heldBy reports whether the Lease of the gone capture holds the node, whatever the reservation on the Node. The Lease
// of a released Node is dropped.
func (h locks) heldBy(ctx context.Context, n *corev1.Node, holder v1alpha1.Holder) (bool, error) {
	shadow, unreadable := v1alpha1.ReservationOf(n.Annotations)
	lease, err := h.leases.Confirmed(ctx, n)
	if err != nil {
		return false, err
	}
	switch confirmed := lease != nil && lease.Holder == holder; {
	case shadow != nil && shadow.Holder == holder && !confirmed:
		return false, fmt.Errorf("node %s: %w", n.Name, node.ErrUnconfirmed)
	case !confirmed:
		return false, nil
	case lease.Untouched, shadow == nil && unreadable == nil && node.AsBefore(n, *lease): // no reservation on the Node is of an untouched hold
		if there, err := h.isActiveCapture(ctx, holder, cloud.InstanceID(n.Spec.ProviderID)); err != nil || there {
			return false, err
		}
		return false, h.leases.DropOf(ctx, holder.UID)
	}
	return true, nil
}

// fromOrphan is the state of an orphan before the observation.
func fromOrphan(p *v1alpha1.Prototype) *pass {
	w := fromPrototype(p, v1alpha1.Record{})
	w.isOrphan = true
	return w
}

// lookOrphanPool finds the pool of the orphan.
func (h donorReader) lookOrphanPool(ctx context.Context, w *pass) error {
	of, err := membership.OfNode(ctx, h.cloud, w.donor.node)
	switch {
	case err != nil:
		return err
	case of.Pool == "":
		return noPool(w.id, of)
	}
	w.pool = of.Pool
	w.p.Spec.Pool = h.cloud.PoolName(w.pool)
	w.p.Spec.Version = versionIn(w.p.Name, w.p.Spec.Pool)
	return nil
}

// lookOrphan observes the orphan.
func (r rooms) lookOrphan(ctx context.Context, w *pass) error {
	for _, look := range []effect{
		r.donors.lookOrphanPool, r.donors.lookNode, r.pods.readPod, r.orders.lookOrphanOrder, r.donors.lookInstance,
		r.images.lookOrphanSnapshot,
	} {
		if err := look(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// versionIn is the version in a Prototype's name, which is part of the pod's name.
func versionIn(name, pool string) string {
	rest, _ := strings.CutPrefix(name, v1alpha1.ObjectName(pool)+"-")
	version, _, _ := strings.Cut(rest, "-")
	if _, err := imageversion.Day(version); err != nil {
		return ""
	}
	return version
}
