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
	w, err := e.findOrphan(ctx, name, holder)
	if err != nil {
		return Result{After: e.backOff(key, err)}, err
	}
	if w == nil {
		e.failedPasses.Delete(key)
		return Result{Done: true}, nil
	}
	if err := e.lookOrphan(ctx, w); err != nil {
		err = errors.Join(err, e.actWithoutCloud(ctx, fromOrphan(w.p), err))
		return Result{After: e.backOff(key, err)}, err
	}
	if acceptsPodsInOldBoot(w) {
		err := fmt.Errorf("node %s: %w", name, ErrInService)
		return Result{After: e.backOff(key, err)}, err
	}
	decision := plan.Orphan(w.facts)
	e.Log.V(1).Info("decided", "node", name, "holder", holder.Name, "decision", decision.String())
	if decision.Do == plan.Wait && w.facts.Donor.Power == plan.InstanceGone && !w.isRemoving() {
		err := fmt.Errorf("node %s: %w", name, ErrInstanceGone)
		return Result{After: e.backOff(key, err)}, err
	}
	if decision.Do == plan.Wait {
		return Result{After: pollDelay(w.p, decision.Why, e.now())}, nil
	}
	if err := e.act(ctx, w, decision); err != nil {
		err = errors.Join(err, e.actWithoutCloud(ctx, fromOrphan(w.p), err))
		return Result{After: e.backOff(key, err)}, fmt.Errorf("return node %s: %w", name, err)
	}
	e.failedPasses.Delete(key)
	return Result{}, nil
}

// findOrphan returns the state of the node as the donor of a deleted Prototype. The result is nil if the holder does
// not hold the node, or if the capture is still active.
func (e *Engine) findOrphan(ctx context.Context, name string, holder v1alpha1.Holder) (*pass, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, e.reservations().DropOf(ctx, holder.UID)
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	if held, err := e.heldBy(ctx, n, holder); err != nil || !held {
		return nil, err
	}
	id := cloud.InstanceID(n.Spec.ProviderID)
	if there, err := e.rooms().locks.isActiveCapture(ctx, holder, id); err != nil || there {
		return nil, err
	}
	p, now := &v1alpha1.Prototype{}, metav1.NewTime(e.now())
	p.Name, p.UID, p.DeletionTimestamp = holder.Name, holder.UID, &now
	p.Spec.Donor = v1alpha1.Donor{NodeName: name, ProviderID: n.Spec.ProviderID}
	w := fromOrphan(p)
	w.donor.node = n
	return w, nil
}

// heldBy reports whether the Lease of the gone capture holds the node, whatever the reservation on the Node. The Lease
// of a released Node is dropped.
func (e *Engine) heldBy(ctx context.Context, n *corev1.Node, holder v1alpha1.Holder) (bool, error) {
	shadow, unreadable := v1alpha1.ReservationOf(n.Annotations)
	lease, err := e.reservations().Confirmed(ctx, n)
	if err != nil {
		return false, err
	}
	switch confirmed := lease != nil && lease.Holder == holder; {
	case shadow != nil && shadow.Holder == holder && !confirmed:
		return false, fmt.Errorf("node %s: %w", n.Name, node.ErrUnconfirmed)
	case !confirmed:
		return false, nil
	case shadow == nil && unreadable == nil && node.AsBefore(n, *lease):
		return false, e.reservations().DropOf(ctx, holder.UID)
	}
	return true, nil
}

// fromOrphan is the state of an orphan before the observation.
func fromOrphan(p *v1alpha1.Prototype) *pass {
	w := fromPrototype(p, v1alpha1.Record{})
	w.isOrphan = true
	return w
}

// lookOrphan observes the orphan.
func (e *Engine) lookOrphan(ctx context.Context, w *pass) error {
	of, err := membership.OfNode(ctx, e.Cloud, w.donor.node)
	switch {
	case err != nil:
		return err
	case of.Pool == "":
		return noPool(w.id, of)
	}
	w.pool = of.Pool
	w.p.Spec.Pool = e.Cloud.PoolName(w.pool)
	w.p.Spec.Version = versionIn(w.p.Name, w.p.Spec.Pool)
	r := e.rooms()
	for _, look := range []effect{r.donors.lookNode, r.pods.readPod, r.orders.lookOrphanOrder, r.donors.lookInstance, r.leaving.readUnfilledPlace, r.images.lookOrphanSnapshot} {
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
