package nodepatch

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
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/plan"
)

// observed is the state of one pass.
type observed struct {
	task   Task
	record Record
	node   *corev1.Node // nil if the Node is gone
	lease  *v1alpha1.Reservation
	left   node.Remaining
	order  *v1alpha1.NodeOrder
	pod    *corev1.Pod
	report *patch.Report
	// problem is the cause of Facts.Unhealthy.
	problem string
	facts   plan.Facts
}

// observe reads the state of the node and of the order.
func (p *Patcher) observe(ctx context.Context, t Task, r Record) (*observed, error) {
	w := &observed{task: t, record: r}
	f := &w.facts
	f.Ending, f.Off, f.Failure, f.Result = t.Ending, t.Off, plan.Reason(r.Failure), plan.Result(r.Result)
	f.LevelQuarantined, f.LevelRecorded = r.Level != "" && t.Quarantined[r.Level], r.FailedLevel != "" && r.FailedLevel == r.Level || r.Level == ""
	switch r.Method {
	case v1alpha1.OrderPatch:
		f.Order = plan.PatchOrder
	case v1alpha1.OrderReboot:
		f.Order = plan.RebootOrder
	case v1alpha1.InPlace, v1alpha1.OrderQuiesce, v1alpha1.OrderCopy, v1alpha1.OrderCheck:
	}
	for _, part := range []func(context.Context, *observed) error{p.lookNode, p.lookOrder, p.lookPod} {
		if err := part(ctx, w); err != nil {
			return nil, err
		}
	}
	w.lookReport()
	f.Overdue = w.overdue(p.Now())
	if f.Order == plan.NoOrder && f.Failure == "" && !f.Ending && f.Lock == plan.Ours && f.Node == plan.NodeReady {
		var err error
		if w.problem, err = p.Unhealthy(ctx, t.Node); err != nil {
			return nil, err
		}
		f.Unhealthy = w.problem != ""
	}
	return w, nil
}

// lookNode reads the Node, its holder and its pods.
func (p *Patcher) lookNode(ctx context.Context, w *observed) error {
	if w.task.Gone {
		return nil
	}
	n, err := p.Kube.CoreV1().Nodes().Get(ctx, w.task.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", w.task.Node, err)
	case n.UID != w.task.NodeUID:
		return nil
	}
	w.node = n
	if w.lease, err = p.Reservations.Confirmed(ctx, n); err != nil {
		return err
	}
	w.judgeNode(n)
	f := &w.facts
	if !f.Cordoned || f.Rebooted || f.Failure != "" {
		return nil
	}
	if w.left, err = node.Left(ctx, p.Kube, n.Name, w.task.Drain, node.OwnPod{Namespace: p.Namespace, Name: podName(w.task)}); err != nil {
		return err
	}
	f.Drained = len(w.left.Pods) == 0 && len(w.left.Stuck) == 0
	return nil
}

// judgeNode sets the facts that the Node and the reservation show.
func (w *observed) judgeNode(n *corev1.Node) {
	f, boot := &w.facts, n.Status.NodeInfo.BootID
	switch {
	case w.lease == nil:
	case w.lease.Same(w.task.Holder):
		f.Lock = plan.Ours
	default:
		f.Lock = plan.Theirs
	}
	f.Node = plan.NodeNotReady
	if nodestate.Ready(n) {
		f.Node = plan.NodeReady
	}
	f.Rebooted = w.record.Boot != "" && boot != "" && boot != w.record.Boot
	// A node that was cordoned before the reservation stays cordoned in service.
	before := w.lease != nil && w.lease.Unschedulable
	f.Cordoned = n.Spec.Unschedulable && (!f.Rebooted || !before)
	f.PendingMarked = isMarked(n, v1alpha1.RebootPendingAnnotation)
	f.FailedMarked = isMarked(n, v1alpha1.PatchFailedAnnotation)
	f.PatchedMarked = !w.record.ReportedAt.IsZero() && n.Annotations[v1alpha1.PatchedAtAnnotation] == w.patchedAt() &&
		n.Annotations[v1alpha1.PatchLevelAnnotation] == w.record.Level && !f.PendingMarked && !f.FailedMarked
}

func isMarked(n *corev1.Node, key string) bool {
	value, found := n.Annotations[key]
	return found && value != "false"
}

// patchedAt is the value of the annotation of a patched node.
func (w *observed) patchedAt() string { return w.record.ReportedAt.UTC().Format(time.RFC3339) }

// lookOrder reads the NodeOrder, also a NodeOrder without a record.
func (p *Patcher) lookOrder(ctx context.Context, w *observed) error {
	order := &v1alpha1.NodeOrder{}
	key := client.ObjectKey{Namespace: p.Namespace, Name: podName(w.task)}
	switch err := p.Client.Get(ctx, key, order); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read order %s: %w", key, err)
	}
	w.order, w.facts.OrderLeft = order, true
	return nil
}

// lookPod reads the pod of the order.
func (p *Patcher) lookPod(ctx context.Context, w *observed) error {
	pod, err := p.Kube.CoreV1().Pods(p.Namespace).Get(ctx, podName(w.task), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", p.Namespace, podName(w.task), err)
	}
	w.pod, w.facts.Pod = pod, plan.PodActive
	order := w.record.Order
	foreign := order == nil || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID)
	if foreign || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		w.facts.Pod = plan.PodFailed
	} else if node.IsStuck(pod, p.Now()) {
		w.facts.Pod = plan.PodStuck
	}
	w.facts.PodKnown = !foreign && order.Pod == pod.UID
	return nil
}

// lookReport reads the signed report of the patch. A report that fits neither the order nor the boot is ignored.
func (w *observed) lookReport() {
	if w.order == nil || w.record.Order == nil || w.record.Method != v1alpha1.OrderPatch || w.record.Result != string(plan.NoResult) {
		return
	}
	signed, err := v1alpha1.ReportOf(w.order, *w.record.Order)
	if err != nil || signed == nil {
		return
	}
	report, err := patch.Decode(signed.Patch)
	if err != nil || report.Answers(patch.OrderOf(w.order.Spec)) != nil || report.Token != w.record.Boot {
		return
	}
	w.report, w.facts.Reported = report, true
}

// overdue reports whether the current phase has exceeded its time.
func (w *observed) overdue(now time.Time) bool {
	r, limits := w.record, w.task.Limits
	past := func(at metav1.Time, limit time.Duration) bool { return now.Sub(at.Time) > limit }
	switch {
	case r.Method == "":
		return past(r.StartedAt, w.task.Drain.Timeout.Duration) || w.node != nil && nodestate.Leaving(w.node) != ""
	case r.Result == string(plan.NoResult):
		return past(r.OrderedAt, limits.Patch)
	case !r.BackAt.IsZero():
		return past(r.BackAt, limits.SoakTimeout)
	case r.Method == v1alpha1.OrderReboot:
		return past(r.OrderedAt, limits.Reboot)
	case w.facts.Rebooted:
		return past(r.ReportedAt, w.task.Drain.Timeout.Duration+limits.Reboot)
	}
	return past(r.ReportedAt, w.task.Drain.Timeout.Duration)
}

// observeSoak records since when the node is back, and since when the node is healthy in service.
func (p *Patcher) observeSoak(ctx context.Context, w *observed, s Store) error {
	f, r := &w.facts, w.record
	if r.Result != string(plan.Patched) || !f.Rebooted || f.Lock != plan.Ours || f.Failure != "" {
		return nil
	}
	now := metav1.NewTime(p.Now())
	problem := "the node is not in service"
	if f.Node == plan.NodeReady && !f.Cordoned && f.PatchedMarked {
		var err error
		if problem, err = p.Unhealthy(ctx, w.task.Node); err != nil {
			return err
		}
		problem = cmp.Or(problem, lost(r.Abilities, w.node))
	}
	w.problem = problem
	if r.BackAt.IsZero() && f.Node == plan.NodeReady {
		r.BackAt = now
	}
	switch {
	case problem != "":
		r.HealthySince = metav1.Time{}
	case r.HealthySince.IsZero():
		r.HealthySince = now
	}
	f.Soaked = !r.HealthySince.IsZero() && now.Sub(r.HealthySince.Time) >= w.task.Limits.Soak
	if r.BackAt.Equal(&w.record.BackAt) && r.HealthySince.Equal(&w.record.HealthySince) {
		return nil
	}
	w.record = r
	f.Overdue = w.overdue(p.Now())
	return s.Save(ctx, r)
}
