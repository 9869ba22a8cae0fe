package nodepatch

import (
	"cmp"
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/plan"
)

// act does the decision. Each effect may be repeated.
func (p *Patcher) act(ctx context.Context, w *observed, d plan.Decision, s Store) error {
	switch d.Do {
	case plan.Wait, plan.Finish, plan.Close:
		return nil
	case plan.Cordon:
		return node.Cordon(ctx, p.Kube, w.node)
	case plan.Evict:
		_, err := node.Evict(ctx, p.Kube, w.left, w.task.Drain, false)
		return err
	case plan.Uncordon:
		return p.Reservations.Serve(ctx, w.node, *w.lease)
	case plan.OrderPatch, plan.OrderReboot:
		return p.makeOrder(ctx, w, d.Do, s)
	case plan.RunPod:
		return p.runPod(ctx, w)
	case plan.DeletePod:
		return p.deletePod(ctx, w.pod, w.task.Off)
	case plan.DeleteOrder:
		return p.deleteOrder(ctx, w.order)
	case plan.MarkPending, plan.MarkPatched, plan.MarkFailed:
		return node.Mark(ctx, p.Kube, w.node, w.marks(d.Do))
	case plan.Adopt, plan.Believe, plan.Fail, plan.Quarantine:
		return s.Save(ctx, w.noted(d, metav1.NewTime(p.Now())))
	case plan.OrderCheck: // Check decides about checks
	}
	return fmt.Errorf("no action %q", d.Do)
}

// noted is the record after an action that only changes the record.
func (w *observed) noted(d plan.Decision, now metav1.Time) Record {
	r := w.record
	switch d.Do {
	case plan.Adopt:
		order := *r.Order
		order.Pod = w.pod.UID
		r.Order = &order
	case plan.Believe:
		r.Result, r.Level, r.Set, r.ReportedAt = string(plan.ResultOf(w.report)), w.report.After, cmp.Or(w.report.Set, patch.Digest(w.report.Installed)), now
		r.Installed = int32(min(max(w.report.Counts.Installed, len(w.report.Installed)), math.MaxInt32))
		if w.report.Failure != nil {
			r.Problem = w.report.Failure.Message
		}
	case plan.Fail:
		r.Failure = string(d.Why)
		if d.Why == plan.NodeUnhealthy || d.Why == plan.SoakFailed {
			r.Problem = w.problem
		}
	case plan.Quarantine:
		r.FailedLevel = r.Level
	default:
	}
	return r
}

// marks are the annotations of an action; nil removes an annotation.
func (w *observed) marks(a plan.Action) map[string]*string {
	yes, level, at := "true", w.record.Level, w.patchedAt()
	switch a {
	case plan.MarkPending:
		return map[string]*string{v1alpha1.RebootPendingAnnotation: &yes}
	case plan.MarkPatched:
		return map[string]*string{
			v1alpha1.PatchedAtAnnotation: &at, v1alpha1.PatchLevelAnnotation: &level,
			v1alpha1.RebootPendingAnnotation: nil, v1alpha1.PatchFailedAnnotation: nil, v1alpha1.PatchesPendingAnnotation: nil,
		}
	default:
		failed := level
		if failed == "" {
			failed = yes
		}
		return map[string]*string{
			v1alpha1.PatchFailedAnnotation: &failed, v1alpha1.PatchedAtAnnotation: nil, v1alpha1.PatchLevelAnnotation: nil,
		}
	}
}

// makeOrder creates the NodeOrder and its key, and then records both. Only the recorded NodeOrder is trusted. A crash in between
// leaves a NodeOrder that the next pass replaces.
func (p *Patcher) makeOrder(ctx context.Context, w *observed, a plan.Action, s Store) error {
	boot := w.node.Status.NodeInfo.BootID
	if boot == "" {
		return fmt.Errorf("node %s reports no boot ID", w.node.Name)
	}
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		return err
	}
	order := newOrder(w.task, a, p.Namespace, boot, public)
	if w.order != nil {
		if err := p.deleteOrder(ctx, w.order); err != nil {
			return err
		}
	}
	if err := p.Client.Create(ctx, order); err != nil {
		return fmt.Errorf("create order %s/%s: %w", order.Namespace, order.Name, err)
	}
	if err := node.CreateOrderKey(ctx, p.Kube, order, private); err != nil {
		return err
	}
	r := w.record
	r.Order = &v1alpha1.OrderRecord{Namespace: order.Namespace, UID: order.UID, Key: public}
	if r.Method == order.Spec.Method { // a deleted NodeOrder is made again, within the time of the first one
		return s.Save(ctx, r)
	}
	if a == plan.OrderPatch {
		r.Abilities = abilities(w.node)
	}
	r.Method, r.Boot, r.OrderedAt = order.Spec.Method, boot, metav1.NewTime(p.Now())
	return s.Save(ctx, r)
}

// deleteOrder deletes the key and then the NodeOrder.
func (p *Patcher) deleteOrder(ctx context.Context, order *v1alpha1.NodeOrder) error {
	if err := node.DeleteKey(ctx, p.Kube, order.Namespace, order.Name); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(p.Client.Delete(ctx, order, client.Preconditions{UID: &order.UID})); err != nil {
		return fmt.Errorf("delete order %s/%s: %w", order.Namespace, order.Name, err)
	}
	return nil
}

// runPod creates the pod of the recorded order.
func (p *Patcher) runPod(ctx context.Context, w *observed) error {
	if err := p.mayRun(); err != nil {
		return err
	}
	pod := newPod(w.task, w.record, p.Namespace, p.Image)
	_, err := p.Kube.CoreV1().Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p *Patcher) mayRun() error {
	if p.MayRun == nil {
		return nil
	}
	return p.MayRun()
}

// deletePod deletes the pod; without a grace period if the machine is off, because no kubelet could confirm.
func (p *Patcher) deletePod(ctx context.Context, pod *corev1.Pod, off bool) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if off {
		options.GracePeriodSeconds = new(int64)
	}
	err := p.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
