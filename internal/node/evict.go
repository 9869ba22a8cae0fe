package node

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Remaining lists the pods on a node during a drain.
type Remaining struct {
	// Pods still have to leave the node.
	Pods []corev1.Pod
	// Stuck has one sentence for each pod that Kamino cannot evict without force.
	Stuck []string
	// HasOwnPod is true if the node has Kamino's own pod.
	HasOwnPod bool
	// Protected names the pods with an annotation against eviction, and the annotation. Evict evicts these pods too.
	Protected []string
}

// Names returns the remaining pods as namespace/name.
func (r Remaining) Names() []string {
	names := make([]string, len(r.Pods))
	for i := range r.Pods {
		names[i] = r.Pods[i].Namespace + "/" + r.Pods[i].Name
	}
	return names
}

// OwnPod names the generalize pod of the capture, so that the drain skips the pod. The zero value names no pod. A label
// would not be safe: any client can label a pod.
type OwnPod struct{ Namespace, Name string }

// Left lists the pods that must leave the node: all except pods of DaemonSets, static pods and Kamino's own pod. The rules
// are those of kubectl drain. Left requests the pods of the node only.
func Left(ctx context.Context, kube kubernetes.Interface, name string, s v1alpha1.DrainSettings, own OwnPod) (Remaining, error) {
	ofNode := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()}
	pods, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, ofNode)
	if err != nil {
		return Remaining{}, fmt.Errorf("list the pods of node %s: %w", name, err)
	}
	left := Remaining{}
	for i := range pods.Items {
		left.add(&pods.Items[i], s.Force, own)
	}
	return left, nil
}

// add adds a pod of the node to the lists. Without force, a pod without a controller is stuck.
func (r *Remaining) add(pod *corev1.Pod, force bool, own OwnPod) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	controller := metav1.GetControllerOf(pod)
	switch {
	case own.is(pod):
		r.HasOwnPod = true
		return
	case isStatic(pod), !ended && isDaemonSet(controller):
		return
	case !ended && controller == nil && !force:
		r.Stuck = append(r.Stuck, fmt.Sprintf("pod %s/%s has no controller that would create the pod again", pod.Namespace, pod.Name))
		return
	}
	r.Pods = append(r.Pods, *pod)
	if by := protectedBy(pod); by != "" {
		r.Protected = append(r.Protected, fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, by))
	}
}

// isStatic reports whether the pod is static: the kubelet runs the pod from a file and creates the mirror pod again.
func isStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// isDaemonSet reports whether the controller is a DaemonSet. Pods of a DaemonSet tolerate the cordon of the node.
func isDaemonSet(controller *metav1.OwnerReference) bool {
	return controller != nil && controller.Kind == "DaemonSet" && controller.APIVersion == appsv1.SchemeGroupVersion.String()
}

// protectedBy returns the annotation of a pod against eviction; empty if there is none.
func protectedBy(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "" // the pod is already terminating
	case pod.Annotations[v1alpha1.SafeToEvictAnnotation] == "false":
		return v1alpha1.SafeToEvictAnnotation
	case pod.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true":
		return v1alpha1.DoNotDisruptAnnotation
	}
	return ""
}

// BlockedPod is a pod that a PodDisruptionBudget protects for now.
type BlockedPod struct {
	// Pod is namespace/name.
	Pod string
	// Why is the sentence of the API server with the name of the budget.
	Why string
}

// String reads "default/web-1: The disruption budget web needs 2 healthy pods and has 2 currently".
func (b BlockedPod) String() string { return b.Pod + ": " + b.Why }

// Evict requests the eviction of every remaining pod once, and does not wait. Evict skips terminating pods. Evict
// returns the pods that a budget blocks. If hard is true, Evict deletes pods and ignores budgets.
func Evict(ctx context.Context, kube kubernetes.Interface, left Remaining, s v1alpha1.DrainSettings, hard bool) ([]BlockedPod, error) {
	options := metav1.DeleteOptions{}
	if s.GracePeriod != nil { // the default is the grace period of the pod
		grace := int64(s.GracePeriod.Seconds())
		options.GracePeriodSeconds = &grace
	}
	var blocked []BlockedPod
	var problems []error
	for _, pod := range left.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		var err error
		if hard {
			err = kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
		} else {
			err = evict(ctx, kube, pod, options)
		}
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case apierrors.IsTooManyRequests(err):
			blocked = append(blocked, BlockedPod{pod.Namespace + "/" + pod.Name, budgetSentence(err)})
		default:
			problems = append(problems, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return blocked, errors.Join(problems...)
}

// HeldBack returns the pods that a budget would block if each pod were evicted alone. HeldBack changes nothing: the
// evictions are dry runs. A pod with any other error is not in the result.
func HeldBack(ctx context.Context, kube kubernetes.Interface, left Remaining) []BlockedPod {
	var blocked []BlockedPod
	for _, pod := range left.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := evict(ctx, kube, pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsTooManyRequests(err) {
			blocked = append(blocked, BlockedPod{pod.Namespace + "/" + pod.Name, budgetSentence(err)})
		}
	}
	return blocked
}

// budgetSentence returns the part of the refusal with the budget's name; without such a part, the whole refusal.
// Source: pkg/registry/core/pod/storage/eviction.go, cause "DisruptionBudget".
func budgetSentence(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return err.Error()
}

// evict requests the eviction of one pod.
func evict(ctx context.Context, kube kubernetes.Interface, pod corev1.Pod, options metav1.DeleteOptions) error {
	return kube.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &options,
	})
}

// is reports whether the pod is the generalize pod of the capture. The name, Kamino's namespace and the service account
// must match: only generalize pods have the account.
func (o OwnPod) is(pod *corev1.Pod) bool {
	return pod.Namespace == o.Namespace && pod.Name == o.Name && pod.Spec.ServiceAccountName == v1alpha1.GeneralizeServiceAccount
}
