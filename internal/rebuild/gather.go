package rebuild

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
)

// nodeRebuild is the rebuild of one reserved node, with the state that this pass observed.
type nodeRebuild struct {
	of    *Replacement
	facts plan.Node
	node  *corev1.Node
	held  *v1alpha1.Reservation
	pods  node.Remaining
	// refused is the cloud's error after a refused request.
	refused error
}

func (r *Replacement) rebuildOf(name string) *nodeRebuild {
	return &nodeRebuild{of: r, facts: plan.Node{
		Name: name, To: r.To, AtOnce: r.AllAtOnce, Force: r.Drain.Force, DrainTime: r.Drain.Timeout.Duration, ReadyTime: r.ReadyTimeout,
	}}
}

// observe reads the state of a reserved node. Asking the cloud is an action of its own.
func (w *nodeRebuild) observe(ctx context.Context) error {
	n, err := w.of.Kube.CoreV1().Nodes().Get(ctx, w.facts.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.facts.Gone = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", w.facts.Name, err)
	}
	w.node = n
	if err := w.lookHold(ctx); err != nil || !w.facts.Held {
		return err
	}
	rebuild, f := w.held.Rebuild, &w.facts
	f.Cordoned, f.Ready = n.Spec.Unschedulable, nodestate.Ready(n)
	f.Rebooted = n.Status.NodeInfo.BootID != rebuild.BootID
	f.Unattended, f.PolicyGone = w.of.Policy != nil, w.of.Policy != nil && w.of.Policy.Gone
	if f.Asked = rebuild.AskedAt != nil; f.Asked {
		f.ReturnOverdue = w.of.Now().Sub(w.since(rebuild.AskedAt.Time)) > w.of.ReadyTimeout
		return nil
	}
	f.Overdue = w.of.Now().Sub(rebuild.StartedAt.Time) > w.of.Drain.Timeout.Duration
	if f.Cordoned && !f.AtOnce {
		return w.lookAtPods(ctx)
	}
	return nil
}

// lookHold reads the holder of the node. The annotation on the Node decides whether to read the Lease. Only the Lease
// decides what is done to the node and restored on it.
func (w *nodeRebuild) lookHold(ctx context.Context) error {
	shadow, err := v1alpha1.ReservationOf(w.node.Annotations)
	if err != nil {
		return fmt.Errorf("node %s: %w", w.node.Name, err)
	}
	if shadow != nil && !w.of.owns(shadow) {
		w.facts.By = shadow.Holder.String()
		return nil
	}
	lease, err := w.of.reservations().Confirmed(ctx, w.node)
	ours := lease != nil && lease.Same(w.of.holder()) && lease.Rebuild != nil
	switch {
	case err != nil:
		return err
	case shadow == nil && ours && node.AsBefore(w.node, *lease): // the node was released, and the Lease is left over
		w.facts.Released = true
		return w.of.reservations().End(ctx, w.node, lease.Holder)
	case shadow == nil:
		return nil
	case !ours:
		w.facts.Unconfirmed = true
		return nil
	}
	w.held, w.facts.Held = lease, true
	return nil
}

// since returns the start of a time limit. For a request by a person the limit starts with the first pass at the
// earliest.
func (w *nodeRebuild) since(at time.Time) time.Time {
	if w.of.Policy == nil && w.of.began.After(at) {
		return w.of.began
	}
	return at
}

// lookAtPods finds the pods that have to leave. Terminating pods on an unready node are ignored, because no kubelet
// confirms their end.
func (w *nodeRebuild) lookAtPods(ctx context.Context) (err error) {
	if w.pods, err = node.Left(ctx, w.of.Kube, w.node.Name, w.of.Drain, node.OwnPod{}); err != nil {
		return err
	}
	f := &w.facts
	if !f.Ready {
		w.pods.Pods = staying(w.pods.Pods)
	}
	f.Pods, f.Stuck = len(w.pods.Pods), w.pods.Stuck
	if f.Overdue && !f.Force && f.Pods > 0 {
		if blocked := node.HeldBack(ctx, w.of.Kube, w.pods); len(blocked) > 0 {
			f.Blocked = blocked[0].String()
		}
	}
	return nil
}

// staying returns the pods that are not terminating.
func staying(pods []corev1.Pod) []corev1.Pod {
	var left []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			left = append(left, pod)
		}
	}
	return left
}

// ask requests the rebuild from the cloud, and stores the answer in the facts.
func (w *nodeRebuild) ask(ctx context.Context) error {
	have, err := w.of.Cloud.EnsureRebuilt(ctx, cloud.InstanceID(w.node.Spec.ProviderID), w.of.To)
	if err == nil {
		w.facts.Answer, w.facts.Said = plan.Working, have.Trouble
		if have.State == cloud.Complete {
			w.facts.Answer = plan.Complete
		}
		return nil
	}
	w.facts.Said = err.Error()
	switch cloud.KindOf(err) {
	case cloud.NotFound:
		w.facts.Answer = plan.NoInstance
	case cloud.Throttled, cloud.Unavailable:
		w.facts.Answer = plan.Busy
	case cloud.Conflict: // the recipe names another version now, or another operation on the instance is running
		pool, look := w.of.Cloud.Pool(ctx, w.of.Pool)
		if look != nil {
			return look
		}
		w.facts.Answer = plan.Busy
		if pool.Recipe.Version != w.of.To || pool.Recipe.Latest {
			w.facts.Answer = plan.Elsewhere
			w.refused = fmt.Errorf("%w: the recipe names %s now: %w", ErrStopped, pool.Recipe.Image, err)
		}
	default:
		w.facts.Answer, w.refused = plan.Denied, err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// passes reports whether an error is temporary: a conflict, throttling or an unavailable service.
func passes(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) {
		return true
	}
	fromAPIServer := apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
	return cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) && !fromAPIServer
}
