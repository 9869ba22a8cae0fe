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

// Remaining is what is left on a node that is being drained.
type Remaining struct {
	// Pods that must leave, and have not.
	Pods []corev1.Pod
	// Stuck are sentences about pods that may not be evicted at all without force.
	Stuck []string
	// Protected are those of Pods that ask not to be evicted, with the annotation that says so. They go all the
	// same where they are evicted.
	Protected []string
}

// Names of the pods that are left, as namespace/name.
func (r Remaining) Names() []string {
	names := make([]string, len(r.Pods))
	for i := range r.Pods {
		names[i] = r.Pods[i].Namespace + "/" + r.Pods[i].Name
	}
	return names
}

// Own names the pod that generalizes a donor, which is not drained by the capture that it belongs to. A label
// would not tell it: anybody may write one on a pod of theirs. The zero value is no pod.
type Own struct{ Namespace, Name string }

// Left lists the pods that must leave the node, by the rules of kubectl drain: all pods but those of DaemonSets, static pods and own.
// Without force, a pod without a controller must not be evicted, because nothing makes the pod again.
func Left(ctx context.Context, kube kubernetes.Interface, name string, s v1alpha1.DrainSettings, own Own) (Remaining, error) {
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

// add sorts one pod of the node.
func (r *Remaining) add(pod *corev1.Pod, force bool, own Own) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	controller := metav1.GetControllerOf(pod)
	switch {
	case own.is(pod), isStatic(pod), !ended && isDaemonSet(controller):
		return
	case !ended && controller == nil && !force:
		r.Stuck = append(r.Stuck, fmt.Sprintf("pod %s/%s has no controller, so that nothing makes the pod again", pod.Namespace, pod.Name))
		return
	}
	r.Pods = append(r.Pods, *pod)
	if by := protectedBy(pod); by != "" {
		r.Protected = append(r.Protected, fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, by))
	}
}

// isStatic reports whether a kubelet runs the pod from a file. The pod's object is a mirror that the kubelet makes again.
func isStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// isDaemonSet reports whether the controller is a DaemonSet, whose pods tolerate the cordon of the node.
func isDaemonSet(controller *metav1.OwnerReference) bool {
	return controller != nil && controller.Kind == "DaemonSet" && controller.APIVersion == appsv1.SchemeGroupVersion.String()
}

// protectedBy names the annotation by which a pod asks not to be evicted; empty if it doesn't.
func protectedBy(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "" // it goes by itself
	case pod.Annotations[v1alpha1.SafeToEvictAnnotation] == "false":
		return v1alpha1.SafeToEvictAnnotation
	case pod.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true":
		return v1alpha1.DoNotDisruptAnnotation
	}
	return ""
}

// Blocked is a pod that a PodDisruptionBudget keeps for now.
type Blocked struct {
	// Pod as namespace/name.
	Pod string
	// Why is the API server's own sentence; it names the budget.
	Why string
}

// String reads "default/web-1: The disruption budget web needs 2 healthy pods and has 2 currently".
func (b Blocked) String() string { return b.Pod + ": " + b.Why }

// Evict asks every pod that is left to go, once, through the eviction API, and does not wait. Pods that
// already end are left alone. It returns the pods that a budget holds back. With hard, pods are deleted
// instead of evicted, budgets or not.
func Evict(ctx context.Context, kube kubernetes.Interface, left Remaining, s v1alpha1.DrainSettings, hard bool) ([]Blocked, error) {
	options := metav1.DeleteOptions{}
	if s.GracePeriod != nil { // else each pod's own
		grace := int64(s.GracePeriod.Seconds())
		options.GracePeriodSeconds = &grace
	}
	var blocked []Blocked
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
			blocked = append(blocked, Blocked{pod.Namespace + "/" + pod.Name, budgetSentence(err)})
		default:
			problems = append(problems, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return blocked, errors.Join(problems...)
}

// HeldBack returns the pods that a budget would hold back if each were evicted alone. It is a look: evictions in a dry
// run, which the API server answers by the budgets as they are. A pod about which it says anything else is not among them.
func HeldBack(ctx context.Context, kube kubernetes.Interface, left Remaining) []Blocked {
	var blocked []Blocked
	for _, pod := range left.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := evict(ctx, kube, pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsTooManyRequests(err) {
			blocked = append(blocked, Blocked{pod.Namespace + "/" + pod.Name, budgetSentence(err)})
		}
	}
	return blocked
}

// budgetSentence is the part of the API server's refusal that names the budget; the refusal itself if no
// part does. Source: pkg/registry/core/pod/storage/eviction.go, cause "DisruptionBudget".
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

// evict asks for the eviction of one pod.
func evict(ctx context.Context, kube kubernetes.Interface, pod corev1.Pod, options metav1.DeleteOptions) error {
	return kube.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &options,
	})
}

// is reports whether the pod generalizes the donor of the capture that the pod belongs to: the one of that name, in
// Kamino's own namespace and with the account that only generalize pods have.
func (o Own) is(pod *corev1.Pod) bool {
	return pod.Namespace == o.Namespace && pod.Name == o.Name && pod.Spec.ServiceAccountName == v1alpha1.GeneralizeServiceAccount
}
