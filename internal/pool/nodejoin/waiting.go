package nodejoin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// freshlyWaiting is how long an unschedulable pod suggests that pools will grow. A pod that is pending for longer has
// another problem.
const freshlyWaiting = 30 * time.Minute

// PodsWait reports whether pods have been unschedulable for less than half an hour: an autoscaler then adds nodes. The
// API server answers the one request from its cache.
func PodsWait(ctx context.Context, kube kubernetes.Interface, now time.Time) (bool, error) {
	list, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector("spec.nodeName", ""), fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)),
		).String(),
		ResourceVersion: "0",
	})
	if err != nil {
		return false, fmt.Errorf("list pods without a node: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return waitsForNode(&pod, now) }), nil
}

func waitsForNode(pod *corev1.Pod, now time.Time) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
			now.Sub(c.LastTransitionTime.Time) < freshlyWaiting
	})
}
