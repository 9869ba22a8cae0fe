package capture

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// createInspectionPod creates the inspecting pod: first on another node if the files are compared, then on the donor. Finalizer
// and record precede the pod, so that a deleted Prototype leaves no pod.
func (d pods) createInspectionPod(ctx context.Context, w *pass) error {
	if err := d.image.mayRun(w.p); err != nil {
		return err
	}
	if err := d.store.begin(ctx, w.p); err != nil {
		return err
	}
	remember, now := w.remember(w.record.Reservation), metav1.NewTime(d.now())
	err := d.store.record(ctx, w, func(r *v1alpha1.Record) {
		remember(r)
		r.DiskCheckStartedAt = &now
	})
	if err != nil {
		return err
	}
	pod := inspectionPod(w.p, d.podNamespace, d.image.of(w.p))
	if err := d.addRootDisks(ctx, w, pod); err != nil {
		return err
	}
	if w.p.Spec.Settings.Generalize.UnknownFiles.Compares() {
		if err := d.compare(ctx, w, &pod.Spec); err != nil {
			return err
		}
	}
	_, err = d.makePod(ctx, pod)
	return err
}

// compare lets the pod summarize the files of another node, or compare the donor with the summary. Without another node
// the inspection of the donor refuses the capture.
func (d pods) compare(ctx context.Context, w *pass, spec *corev1.PodSpec) error {
	container := &spec.Containers[0]
	if w.facts.Disk.Pod == plan.PodCompared {
		container.Args = append(container.Args, "--compare-with", w.disk.pod.Spec.NodeName+"="+w.disk.summary)
		if w.disk.summary == "" {
			return d.deletePodAndKey(ctx, w)
		}
		addSummaryKey(w.p, spec)
		return d.deleteOnlyPod(ctx, w)
	}
	if w.preflight.admission == nil {
		w.preflight.admission = &admission.Case{}
		d.preflight.surroundings(ctx, w, w.preflight.admission)
	}
	if peer := peerOf(w); peer != "" {
		spec.NodeName = peer
		container.Args = append(container.Args, "--summarize", corev1.TerminationMessagePathDefault)
		addSummaryKey(w.p, spec)
		return d.makeSummaryKey(ctx, w.p)
	}
	return nil
}

// makeSummaryKey creates the key that both inspecting pods mount.
func (d pods) makeSummaryKey(ctx context.Context, p *v1alpha1.Prototype) error {
	key := make([]byte, summaryKeyBytes)
	_, _ = rand.Read(key) // never fails
	return node.CreateKey(ctx, d.kube, metav1.ObjectMeta{
		Name: summaryKeyName(p), Namespace: d.podNamespace, Labels: podLabels(p), OwnerReferences: []metav1.OwnerReference{ownedBy(p)},
	}, key)
}

// peerOf is the Ready node of the donor's pool whose files are compared; empty if there is none. Reserved nodes are excluded.
func peerOf(w *pass) string {
	around, err := w.preflight.admission.PoolNodes.Get()
	if err != nil {
		return ""
	}
	name := ""
	for i := range around.Peers {
		n := &around.Peers[i]
		if nodestate.Ready(n) && n.DeletionTimestamp == nil && !around.Reserved[n.UID] && (name == "" || n.Name < name) {
			name = n.Name
		}
	}
	return name
}

// messageOf returns the message that the inspecting pod has left; empty without one.
func messageOf(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.Message
		}
	}
	return ""
}

// readInspection reads the facts from the inspecting pod. A pod that was rejected for lack of room has found nothing;
// the generalize pod runs on a drained node.
func (d pods) readInspection(w *pass) {
	f, unknownFiles := &w.facts, w.p.Spec.Settings.Generalize.UnknownFiles
	full := w.disk.pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(w.disk.pod.Status.Reason, "OutOf")
	failed := w.foreignPod() || podTrouble(w.disk.pod) != "" || d.isOverdue(w)
	switch {
	case hasSummary(w):
		f.Disk.Pod, w.disk.summary = plan.PodCompared, messageOf(w.disk.pod)
	case !w.foreignPod() && !isPeerPod(w) && (w.disk.pod.Status.Phase == corev1.PodSucceeded || full):
		f.Disk.Pod = plan.PodLooked
		if unknownFiles.Compares() && !full {
			w.disk.comparison = messageOf(w.disk.pod)
		}
	case failed && !w.foreignPod() && isPeerPod(w) && unknownFiles == v1alpha1.UnknownFilesReportDifferent:
		f.Disk.Pod = plan.PodCompared // the inspection of the donor reports the missing comparison
	case failed:
		f.Disk.Pod, w.disk.obstacle = plan.PodFailed, d.inspectionMessage(w)
	}
}

// hasSummary reports whether the pod has summarized the files of another node.
func hasSummary(w *pass) bool {
	return !w.foreignPod() && isPeerPod(w) && w.disk.pod.Status.Phase == corev1.PodSucceeded && messageOf(w.disk.pod) != ""
}

// foreignPod reports whether the pod of this name belongs to another Prototype or has another purpose.
func (w *pass) foreignPod() bool {
	return w.disk.pod.Labels[v1alpha1.PrototypeUIDLabel] != string(w.p.UID) || w.disk.pod.Labels["app.kubernetes.io/component"] != inspectionContainer
}

// isPeerPod reports whether the pod summarizes the files of another node.
func isPeerPod(w *pass) bool { return w.disk.pod.Spec.NodeName != w.p.Spec.Donor.NodeName }

// isOverdue reports whether the inspection has exceeded its timeout. The kubelet may not end the pod, or may never start it.
func (d pods) isOverdue(w *pass) bool {
	since := w.record.DiskCheckStartedAt
	return w.disk.pod.Status.Reason == "DeadlineExceeded" || since != nil && d.now().Sub(since.Time) > inspectionTimeout
}

// hasBegun reports whether the capture has begun or ended, so that no preflight is needed.
func (w *pass) hasBegun() bool {
	f := &w.facts
	return w.isHeld() || f.IsOrdered() || f.Failed || f.Deleting || w.isInspecting()
}

// isInspecting reports whether the inspection is in progress, or has found an obstacle.
func (w *pass) isInspecting() bool {
	return !w.isHeld() && !w.facts.IsOrdered() && w.facts.Disk.Pod != plan.NoPod && w.facts.Disk.Pod != plan.PodLooked
}

// inspectionMessage is the obstacle, as the message of the failure.
func (d pods) inspectionMessage(w *pass) string {
	n, pod := w.p.Spec.Donor.NodeName, podName(w.p)
	container := slices.IndexFunc(w.disk.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated != nil })
	switch {
	case w.foreignPod():
		return fmt.Sprintf("pod %s belongs to another capture, and is removed: %s", pod, retryRemedy(w))
	case isPeerPod(w):
		trouble := podTrouble(w.disk.pod)
		if d.isOverdue(w) {
			trouble = fmt.Sprintf("the inspection did not end within %s", inspectionTimeout)
		}
		return fmt.Sprintf(
			"the files of node %s cannot be compared with node %s, which stayed in service: %s. Repair node %s, or set settings.generalize.unknownFiles to ReportDifferent",
			w.disk.pod.Spec.NodeName, n, trouble, w.disk.pod.Spec.NodeName)
	case d.isOverdue(w):
		return fmt.Sprintf("the inspection of the disk of node %s did not end within %s, and the node stayed in service. Read the events of pod %s, and check that the node can pull %s",
			n, inspectionTimeout, pod, w.disk.pod.Spec.Containers[0].Image)
	case container >= 0:
		return fmt.Sprintf("node %s cannot be captured, and the node stayed in service: %s",
			n, strings.TrimPrefix(strings.TrimSpace(w.disk.pod.Status.ContainerStatuses[container].State.Terminated.Message), "kamino: "))
	default:
		return fmt.Sprintf("pod %s does not run on node %s, and the node stayed in service: %s. Check that the node can pull %s, or name another image in settings.generalize.image",
			pod, n, podTrouble(w.disk.pod), w.disk.pod.Spec.Containers[0].Image)
	}
}

// pods creates, reads and removes the pod on the donor.
type pods struct {
	kube         kubernetes.Interface
	store        store
	preflight    preflight
	image        podImages
	podNamespace string
	now          clock
}

// lookPod reads the pod on the donor: the inspecting pod before the order, the generalize pod afterwards. A record precedes each
// pod, and the list of the donor's pods shows a pod of a late request.
func (d pods) lookPod(ctx context.Context, w *pass) error {
	f := &w.facts
	recorded := w.record.DiskCheckStartedAt != nil || w.record.Order != nil || f.IsOrdered() || f.Failed || f.Deleting || w.donor.arePodsListed && w.donor.remainingPods.HasOwnPod
	matters := f.Unrecorded || recorded && f.PodMatters()
	if w.p.UID == "" || !matters {
		return nil
	}
	return d.readPod(ctx, w)
}

// lookLeftPod reads a pod that should no longer exist, before the capture ends.
func (d pods) lookLeftPod(ctx context.Context, w *pass) error {
	if w.disk.pod != nil || !w.facts.LeftoversMatter() {
		return nil
	}
	return d.readPod(ctx, w)
}

func (d pods) readPod(ctx context.Context, w *pass) error {
	namespace := podNamespaceOf(w, d.podNamespace)
	pod, err := d.kube.CoreV1().Pods(namespace).Get(ctx, podName(w.p), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", namespace, podName(w.p), err)
	}
	w.disk.pod = pod
	w.facts.Disk.Pod = plan.PodActive
	switch {
	case w.asksMoment(): // lookMoment compares the pod with its report
	case !w.facts.Disk.Touched && !w.facts.Unrecorded:
		d.readInspection(w)
		return nil
	case w.podTrouble() != "" || w.disk.noProofReason != "":
		w.facts.Disk.Pod = plan.PodFailed
	case node.IsStuck(pod, d.now()):
		w.facts.Disk.Pod, w.disk.noProofReason = plan.PodFailed, fmt.Sprintf("it did not start within %s. Read the events of the pod", node.StartLimit)
	}
	w.facts.Disk.PodKnown = w.record.Order != nil && w.record.Order.Pod == pod.UID
	return nil
}

// createGeneralizePod creates the pod that generalizes the donor, and records its UID.
func (d pods) createGeneralizePod(ctx context.Context, w *pass) error {
	if err := d.mayGeneralize(w); err != nil {
		return err
	}
	namespace, image := podNamespaceOf(w, d.podNamespace), d.image.of(w.p)
	pod := generalizePod(w.p, w.record, namespace, image)
	if w.facts.Copy.Wanted {
		pod = copyPod(w, namespace, image)
	}
	if err := d.addRootDisks(ctx, w, pod); err != nil {
		return err
	}
	return d.createOrderPod(ctx, w, pod)
}

// addRootDisks names the disks of all machines that the pool may launch, so that the pod checks the initramfs for their drivers.
func (d pods) addRootDisks(ctx context.Context, w *pass, pod *corev1.Pod) error {
	pool, err := d.preflight.cloudChecks.cloud.Pool(ctx, w.pool)
	if err == nil && len(pool.RootDisks) > 0 {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--root-disks", strings.Join(pool.RootDisks, ","))
	}
	return err
}

// createOrderPod creates the pod of the recorded NodeOrder, and records its UID.
func (d pods) createOrderPod(ctx context.Context, w *pass, pod *corev1.Pod) error {
	made, err := d.makePod(ctx, pod)
	if err != nil || made == nil {
		return err // the next pass adopts a pod that exists
	}
	w.disk.pod = made
	return d.adopt(ctx, w)
}

// mayGeneralize asks whether the pod of the order may run: its image, and the user's rules only with the recorded digest.
func (d pods) mayGeneralize(w *pass) error {
	if err := d.image.mayRun(w.p); err != nil {
		return err
	}
	if w.p.Spec.Settings.Generalize.Rules != "" && w.record.RulesDigest == "" {
		return errors.New("the record of the order names no digest of the rules in settings.generalize.rules")
	}
	return nil
}

// makePod returns the created pod; nil if a pod of the name exists.
func (d pods) makePod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	made, err := d.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return made, nil
}

// adopt records the UID of the pod. Reports of other pods are ignored.
func (d pods) adopt(ctx context.Context, w *pass) error {
	return d.store.record(ctx, w, func(r *v1alpha1.Record) {
		order := *r.Order
		order.Pod = w.disk.pod.UID
		r.Order = &order
	})
}

// deletePod deletes the pod. The record of an inspection ends with its pod.
func (d pods) deletePod(ctx context.Context, w *pass) error {
	if err := d.deletePodAndKey(ctx, w); err != nil || w.isOrphan || w.record.DiskCheckStartedAt == nil {
		return err
	}
	return d.store.record(ctx, w, func(r *v1alpha1.Record) { r.DiskCheckStartedAt = nil })
}

// deletePodAndKey deletes the pod, and first the key that only inspecting pods of a comparison have.
func (d pods) deletePodAndKey(ctx context.Context, w *pass) error {
	if hasSummaryKey(w.disk.pod) {
		if err := node.DeleteKey(ctx, d.kube, w.disk.pod.Namespace, summaryKeyName(w.p)); err != nil {
			return err
		}
	}
	return d.deleteOnlyPod(ctx, w)
}

// deleteOnlyPod removes the pod without grace period: a stopped kubelet could not confirm.
func (d pods) deleteOnlyPod(ctx context.Context, w *pass) error {
	now := int64(0)
	err := d.kube.CoreV1().Pods(w.disk.pod.Namespace).Delete(ctx, w.disk.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.disk.pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", w.disk.pod.Namespace, w.disk.pod.Name, err)
	}
	return nil
}
