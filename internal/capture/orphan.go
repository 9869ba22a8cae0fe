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
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
)

// Orphan makes a pass over a node that is held by a capture whose Prototype is gone, or has ended: one look, one
// decision, one action of those that give a donor back. All that is known of the capture is the Lease of its reservation,
// which therefore goes last. Done means that this holder does not hold the node, or no longer. Where a reservation is on the Node
// that no Lease confirms, nothing is done, and the error is node.ErrUnconfirmed. Where the node takes pods under the boot that it
// must leave, a person has to decide: the error is ErrInService.
func (e *Engine) Orphan(ctx context.Context, name string, holder v1alpha1.Holder) (Result, error) {
	if !holder.Is(v1alpha1.HolderPrototype) {
		return Result{}, fmt.Errorf("node %s is held by %s, which is no capture", name, holder)
	}
	key := "node/" + name // no Prototype has such a name
	w, err := e.findOrphan(ctx, name, holder)
	if err != nil {
		return Result{After: e.backOff(key, err)}, err
	}
	if w == nil {
		e.troubles.Delete(key)
		return Result{Done: true}, nil
	}
	if err := e.lookOrphan(ctx, w); err != nil {
		err = errors.Join(err, e.unseen(ctx, orphaned(w.p), err))
		return Result{After: e.backOff(key, err)}, err
	}
	if inService(w) {
		err := fmt.Errorf("node %s: %w", name, ErrInService)
		return Result{After: e.backOff(key, err)}, err
	}
	decision := plan.Orphan(w.facts)
	e.Log.V(1).Info("decided", "node", name, "holder", holder.Name, "decision", decision.String())
	if decision.Do == plan.Wait {
		return Result{After: pace(w.p, decision.Why, e.now())}, nil
	}
	if err := e.act(ctx, w, decision); err != nil {
		err = errors.Join(err, e.unseen(ctx, orphaned(w.p), err))
		return Result{After: e.backOff(key, err)}, fmt.Errorf("give node %s back: %w", name, err)
	}
	e.troubles.Delete(key)
	return Result{}, nil
}

// findOrphan is the world of a node as of the donor of a Prototype that is being deleted, before a look; nil if the holder does
// not hold it, or is there to give it back itself.
func (e *Engine) findOrphan(ctx context.Context, name string, holder v1alpha1.Holder) (*observed, error) {
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
	if there, err := holdOf(e).holds(ctx, holder, id); err != nil || there {
		return nil, err
	}
	p, now := &v1alpha1.Prototype{}, metav1.NewTime(e.now())
	p.Name, p.UID, p.DeletionTimestamp = holder.Name, holder.UID, &now
	p.Spec.Donor = v1alpha1.Donor{NodeName: name, ProviderID: n.Spec.ProviderID}
	w := orphaned(p)
	w.node = n
	return w, nil
}

// heldBy reports whether the node is held by the capture that is gone. The Lease says so, whatever became of the reservation on the
// Node. A Lease whose Node was given back already goes.
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

// ErrInService is returned for a node that is to go through a boot, or to be removed, and takes pods meanwhile: somebody has
// uncordoned it, or what is known of it is wrong.
var ErrInService = errors.New("it is Ready and takes pods under the boot that its reservation says it must leave: a person must decide")

// inService reports whether the node takes pods under the boot that it must leave.
func inService(w *observed) bool {
	f := &w.facts
	return f.MustBoot() && !f.Rebooted && f.Node == plan.NodeReady && !f.Cordoned
}

// orphaned is the world of such a Prototype before a look.
func orphaned(p *v1alpha1.Prototype) *observed {
	w := unlooked(p, v1alpha1.Record{})
	w.orphan = true
	return w
}

// lookOrphan looks at it.
func (e *Engine) lookOrphan(ctx context.Context, w *observed) error {
	of, err := membership.OfNode(ctx, e.Cloud, w.node)
	switch {
	case err != nil:
		return err
	case of.Pool == "":
		return noPool(w.id, of)
	}
	w.pool = of.Pool
	w.p.Spec.Pool = e.Cloud.PoolName(w.pool)
	w.p.Spec.Version = versionIn(w.p.Name, w.p.Spec.Pool)
	for _, part := range []func(context.Context, *observed) error{e.lookNode, podsOf(e).readPod, ordersOf(e).lookOrphanOrder, e.lookInstance, departuresOf(e).lookBehind, artifactsOf(e).lookOrphanSnapshot} {
		if err := part(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// versionIn is the version in a Prototype's name: it is part of how its pod is called.
func versionIn(name, pool string) string {
	rest, _ := strings.CutPrefix(name, v1alpha1.ObjectName(pool)+"-")
	version, _, _ := strings.Cut(rest, "-")
	if _, err := imageversion.Day(version); err != nil {
		return ""
	}
	return version
}

// lookOrphanOrder finds the order that the pod was made for: it may be gone behind its Prototype already.
func (o orders) lookOrphanOrder(ctx context.Context, w *observed) error {
	if err := o.readOrder(ctx, w); err != nil || w.order == nil {
		return err
	}
	if w.order.Spec.PrototypeUID != w.p.UID {
		w.order, w.facts.Order = nil, false
	}
	return nil
}
