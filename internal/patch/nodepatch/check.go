package nodepatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// checkLimit is the time from the NodeOrder of a check to its report. A node may wait for the lock of its package manager.
const checkLimit = 30 * time.Minute

// CheckTask is the check of one pool. A pool has one check at a time.
type CheckTask struct {
	// Holder is the policy or the Prototype that asks. Pool is the ID of the pool, or its name.
	Holder v1alpha1.Holder
	Pool   string
	// Node will be asked, unless a check of the pool is running already. Empty: no new check begins.
	Node    string
	Patches v1alpha1.OrderPatches
	// Marked are the nodes of earlier checks, whose annotations are out of date after this check.
	Marked []string
}

// Checked is the end of a check.
type Checked struct {
	Node   string
	Report *patch.Report
}

// checkState is the state of a check in one pass.
type checkState struct {
	task   CheckTask
	order  *v1alpha1.NodeOrder
	pod    *corev1.Pod
	node   *corev1.Node
	report *patch.Report
	facts  plan.CheckFacts
}

// Check makes one pass over the check of a pool, and returns the report at the end; nil before. The node stays in service. Only
// the NodeOrder has the key: a forged report can only start a pioneer.
func (p *Patcher) Check(ctx context.Context, t CheckTask) (*Checked, error) {
	w, err := p.lookCheck(ctx, t)
	if err != nil || w == nil {
		return nil, err
	}
	name := w.nodeName()
	switch d := plan.NextCheck(w.facts); d.Do {
	case plan.OrderCheck:
		err = p.orderCheck(ctx, w)
	case plan.DeletePod:
		err = p.deletePod(ctx, w.pod, false)
	case plan.DeleteOrder:
		err = p.deleteOrder(ctx, w.order)
	case plan.Believe:
		return p.endCheck(ctx, w, w.report)
	case plan.Fail:
		return p.endCheck(ctx, w, &patch.Report{Method: patch.Check, Failure: &patch.Failure{Reason: patch.NodeFailed, Message: w.problem(d.Why)}})
	default:
	}
	if err != nil {
		return nil, fmt.Errorf("check node %s for patches: %w", name, err)
	}
	return nil, nil
}

func (w *checkState) nodeName() string {
	if w.order != nil {
		return w.order.Spec.NodeName
	}
	return w.task.Node
}

// problem is the sentence of a check without a report.
func (w *checkState) problem(why plan.Reason) string {
	name := w.nodeName()
	switch why {
	case plan.NodeGoneAway:
		return fmt.Sprintf("node %s left the cluster during the check", name)
	case plan.Interrupted:
		return fmt.Sprintf("node %s rebooted during the check", name)
	case plan.CheckTimeout:
		return fmt.Sprintf("node %s has not reported within %s", name, checkLimit)
	default:
	}
	message := ""
	for _, s := range w.pod.Status.ContainerStatuses {
		if ended := s.State.Terminated; ended != nil && ended.Message != "" {
			message = ": " + ended.Message
		}
	}
	return fmt.Sprintf("the pod of the check on node %s ended without a report%s", name, message)
}

// lookCheck reads the state of a check; nil if there is neither a check nor a node to ask.
func (p *Patcher) lookCheck(ctx context.Context, t CheckTask) (*checkState, error) {
	w := &checkState{task: t}
	key := client.ObjectKey{Namespace: p.Namespace, Name: checkName(t)}
	order := &v1alpha1.NodeOrder{}
	switch err := p.Client.Get(ctx, key, order); {
	case err == nil:
		w.order, w.facts.Order = order, true
		w.facts.Overdue = p.Now().Sub(order.CreationTimestamp.Time) > checkLimit
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read order %s: %w", key, err)
	case t.Node == "":
		return nil, nil
	}
	n, err := p.Kube.CoreV1().Nodes().Get(ctx, w.nodeName(), metav1.GetOptions{})
	switch {
	case err == nil:
		w.node, w.facts.Node = n, plan.NodeNotReady
		if nodestate.Ready(n) {
			w.facts.Node = plan.NodeReady
		}
		w.facts.Rebooted = w.order != nil && n.Status.NodeInfo.BootID != w.order.Spec.Token
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read node %s: %w", w.nodeName(), err)
	}
	pod, err := p.Kube.CoreV1().Pods(p.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		w.judgePod(pod)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read pod %s: %w", key, err)
	}
	return w, nil
}

// judgePod reads the pod and its report. A report that does not fit the NodeOrder is ignored.
func (w *checkState) judgePod(pod *corev1.Pod) {
	w.pod, w.facts.Pod = pod, plan.PodActive
	if w.order == nil || pod.Annotations[v1alpha1.OrderAnnotation] != string(w.order.UID) ||
		pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		w.facts.Pod = plan.PodFailed
	}
	if w.order == nil {
		return
	}
	signed, err := v1alpha1.ReportOf(w.order, v1alpha1.OrderRecord{Namespace: w.order.Namespace, UID: w.order.UID, Key: w.order.Spec.Key, Pod: pod.UID})
	if err != nil || signed == nil {
		return
	}
	report, err := patch.Decode(signed.Patch)
	if err != nil || report.Answers(patch.OrderOf(w.order.Spec)) != nil {
		return
	}
	w.report, w.facts.Reported = report, true
}

// orderCheck creates the NodeOrder, its key and the pod.
func (p *Patcher) orderCheck(ctx context.Context, w *checkState) error {
	boot := w.node.Status.NodeInfo.BootID
	if boot == "" {
		return fmt.Errorf("node %s reports no boot ID", w.node.Name)
	}
	if err := p.mayRun(); err != nil {
		return err
	}
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		return err
	}
	order := newCheck(w.task, p.Namespace, boot, public)
	if err := p.Client.Create(ctx, order); err != nil {
		return fmt.Errorf("create order %s/%s: %w", order.Namespace, order.Name, err)
	}
	if err := node.CreateOrderKey(ctx, p.Kube, order, private); err != nil {
		return err
	}
	pod := node.OrderPod(order, p.Image, "patch", "--root", node.HostMount)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder", Name: order.Name, UID: order.UID}}
	if _, err := p.Kube.CoreV1().Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// endCheck writes the result on the node, removes the leftovers, and returns the report. A crash before the caller keeps
// the report costs another check. Only a policy renews the annotation later.
func (p *Patcher) endCheck(ctx context.Context, w *checkState, report *patch.Report) (*Checked, error) {
	if w.node != nil && w.task.Holder.Is(v1alpha1.HolderPolicy) {
		text, err := json.Marshal(Summary(report, metav1.NewTime(p.Now())))
		if err != nil {
			return nil, err
		}
		value := string(text)
		if err := node.Mark(ctx, p.Kube, w.node, map[string]*string{v1alpha1.PatchesPendingAnnotation: &value}); err != nil {
			return nil, err
		}
	}
	for _, name := range w.task.Marked {
		if err := p.unmark(ctx, name, w.nodeName()); err != nil {
			return nil, err
		}
	}
	if w.pod != nil {
		if err := p.deletePod(ctx, w.pod, false); err != nil {
			return nil, err
		}
	}
	if w.order != nil {
		if err := p.deleteOrder(ctx, w.order); err != nil {
			return nil, err
		}
	}
	return &Checked{Node: w.nodeName(), Report: report}, nil
}

// unmark removes the annotation of an earlier check from a node.
func (p *Patcher) unmark(ctx context.Context, name, checked string) error {
	if name == checked {
		return nil
	}
	n, err := p.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if _, found := n.Annotations[v1alpha1.PatchesPendingAnnotation]; !found {
		return nil
	}
	return node.Mark(ctx, p.Kube, n, map[string]*string{v1alpha1.PatchesPendingAnnotation: nil})
}

// SweepChecks removes the checks of pools that no policy wants any more. Checks of captures stay.
func (p *Patcher) SweepChecks(ctx context.Context, wanted []CheckTask) error {
	keep := map[string]bool{}
	for _, t := range wanted {
		keep[checkName(t)] = true
	}
	list := &v1alpha1.NodeOrderList{}
	if err := p.Client.List(ctx, list, client.InNamespace(p.Namespace),
		client.MatchingLabels{componentLabel: checkComponent}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("list the orders of namespace %s: %w", p.Namespace, err)
	}
	for i := range list.Items {
		order := &list.Items[i]
		if keep[order.Name] || !order.Spec.Holder.Is(v1alpha1.HolderPolicy) {
			continue
		}
		err := p.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, order.Name, metav1.DeleteOptions{})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s/%s: %w", p.Namespace, order.Name, err)
		}
		if err := p.deleteOrder(ctx, order); err != nil {
			return err
		}
	}
	return nil
}

const (
	componentLabel = "app.kubernetes.io/component"
	checkComponent = "check"
)

// checkName is the name of the NodeOrder, its key and its pod.
func checkName(t CheckTask) string {
	sum := sha256.Sum256([]byte(string(t.Holder.UID) + "\n" + t.Pool))
	return "check-" + hex.EncodeToString(sum[:10])
}

// newCheck is the NodeOrder of a check.
func newCheck(t CheckTask, namespace, boot, key string) *v1alpha1.NodeOrder {
	patches := t.Patches
	return &v1alpha1.NodeOrder{
		ObjectMeta: metav1.ObjectMeta{
			Name: checkName(t), Namespace: namespace,
			Labels: map[string]string{
				v1alpha1.PolicyLabel:     v1alpha1.LabelValue(t.Holder.Name),
				"app.kubernetes.io/name": "kamino", componentLabel: checkComponent, "app.kubernetes.io/managed-by": "kamino",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: string(t.Holder.Kind),
				Name: t.Holder.Name, UID: t.Holder.UID}},
		},
		Spec: v1alpha1.NodeOrderSpec{
			Holder: t.Holder, NodeName: t.Node, Method: v1alpha1.OrderCheck, Token: boot, PodName: checkName(t), Key: key, Patch: &patches,
		},
	}
}
