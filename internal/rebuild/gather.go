package rebuild

import (
	"context"
	"fmt"
	"strings"
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

// observed is the observed state of a reserved node.
type observed struct {
	facts plan.Node
	node  *corev1.Node
	held  *v1alpha1.Reservation
	pods  node.Remaining
	// refused is the cloud's error after a refused request.
	refused error
}

// observe reads the state of a reserved node. Asking the cloud is an action of its own.
func (r *Replacement) observe(ctx context.Context, name string) (observed, error) {
	w := observed{facts: plan.Node{
		Name: name, To: r.To, AtOnce: r.AllAtOnce, Force: r.Drain.Force, DrainTime: r.Drain.Timeout.Duration, ReadyTime: r.ReadyTimeout,
	}}
	n, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.facts.Gone = true
		return w, nil
	}
	if err != nil {
		return w, fmt.Errorf("read node %s: %w", name, err)
	}
	w.node = n
	if err := r.lookHold(ctx, &w); err != nil || !w.facts.Held {
		return w, err
	}
	rebuild, f := w.held.Rebuild, &w.facts
	f.Cordoned, f.Ready = n.Spec.Unschedulable, nodestate.Ready(n)
	f.Rebooted = n.Status.NodeInfo.BootID != rebuild.BootID
	f.Unattended, f.PolicyGone = r.Policy != nil, r.Policy != nil && r.Policy.Gone
	if f.Asked = rebuild.AskedAt != nil; f.Asked {
		f.ReturnOverdue = r.Now().Sub(r.since(rebuild.AskedAt.Time)) > r.ReadyTimeout
		return w, nil
	}
	f.Overdue = r.Now().Sub(rebuild.StartedAt.Time) > r.Drain.Timeout.Duration
	if f.Cordoned && !f.AtOnce {
		err = r.lookAtPods(ctx, &w)
	}
	return w, err
}

// lookHold reads the holder of the node. The annotation on the Node decides whether to read the Lease. Only the Lease
// decides what is done to the node and restored on it.
func (r *Replacement) lookHold(ctx context.Context, w *observed) error {
	shadow, err := v1alpha1.ReservationOf(w.node.Annotations)
	if err != nil {
		return fmt.Errorf("node %s: %w", w.node.Name, err)
	}
	if shadow != nil && !r.owns(shadow) {
		w.facts.By = shadow.Holder.String()
		return nil
	}
	lease, err := r.reservations().Confirmed(ctx, w.node)
	ours := lease != nil && lease.Same(r.holder()) && lease.Rebuild != nil
	switch {
	case err != nil:
		return err
	case shadow == nil && ours && node.AsBefore(w.node, *lease): // the node was released, and the Lease is left over
		w.facts.Released = true
		return r.reservations().End(ctx, w.node, lease.Holder)
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
func (r *Replacement) since(at time.Time) time.Time {
	if r.Policy == nil && r.began.After(at) {
		return r.began
	}
	return at
}

// lookAtPods finds the pods that have to leave. Terminating pods on an unready node are ignored, because no kubelet
// confirms their end.
func (r *Replacement) lookAtPods(ctx context.Context, w *observed) (err error) {
	if w.pods, err = node.Left(ctx, r.Kube, w.node.Name, r.Drain, node.OwnPod{}); err != nil {
		return err
	}
	f := &w.facts
	if !f.Ready {
		w.pods.Pods = staying(w.pods.Pods)
	}
	f.Pods, f.Stuck = len(w.pods.Pods), w.pods.Stuck
	if f.Overdue && !f.Force && f.Pods > 0 {
		if blocked := node.HeldBack(ctx, r.Kube, w.pods); len(blocked) > 0 {
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
func (r *Replacement) ask(ctx context.Context, w *observed) error {
	have, err := r.Cloud.EnsureRebuilt(ctx, cloud.InstanceID(w.node.Spec.ProviderID), r.To)
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
		pool, look := r.Cloud.Pool(ctx, r.Pool)
		if look != nil {
			return look
		}
		w.facts.Answer = plan.Busy
		if pool.Recipe.Version != r.To || pool.Recipe.Latest {
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

// builtFrom returns the instance's image in the form of the image to be replaced.
func (r *Replacement) builtFrom(instance cloud.Instance) string {
	if r.Image != "" {
		return strings.ToLower(instance.Image)
	}
	return instance.BuiltFrom
}
