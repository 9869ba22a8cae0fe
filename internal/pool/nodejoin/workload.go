package nodejoin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

const (
	// startTime is how long a pod may take until it is Ready, and how long it may crash after its start.
	startTime = 10 * time.Minute
	// crashLife is how long a crash or a failed pod counts.
	crashLife = time.Hour
)

// Workloads finds the workloads on nodes, and whether their pods run well.
type Workloads struct {
	Kube kubernetes.Interface
	// Now is the clock.
	Now func() time.Time
}

// On returns the workloads with a pod on each node: true if all of its pods there run well. The API server answers from its cache, by its index of
// nodes.
func (w *Workloads) On(ctx context.Context, nodes []string) (map[string]map[string]bool, error) {
	found := make(map[string]map[string]bool, len(nodes))
	for _, node := range nodes {
		list, err := w.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), ResourceVersion: "0",
		})
		if err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
		}
		found[node] = workloadsOf(list.Items, w.Now())
	}
	return found, nil
}

// workloadsOf returns the workloads of pods. A pod without a controller, one that is being deleted, and a young one that is not Ready yet say
// nothing.
func workloadsOf(pods []corev1.Pod, now time.Time) map[string]bool {
	workloads := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		owner := metav1.GetControllerOf(pod)
		if owner == nil || pod.DeletionTimestamp != nil {
			continue
		}
		isWell, known := runsWell(pod, now)
		if !known {
			continue
		}
		template := cmp.Or(pod.Labels[appsv1.ControllerRevisionHashLabelKey], pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
		workload := fmt.Sprintf("%s %s/%s@%s", owner.Kind, pod.Namespace, owner.Name, template)
		was, seen := workloads[workload]
		workloads[workload] = isWell && (was || !seen)
	}
	return workloads
}

// runsWell reports whether a pod runs well: Ready, without a crash within an hour, except crashes right after its start. A failed pod, such as an
// evicted one, counts for an hour.
func runsWell(pod *corev1.Pod, now time.Time) (isWell, known bool) {
	since := notReadySince(pod, now)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return false, false
	case pod.Status.Phase == corev1.PodFailed:
		return false, now.Sub(since) < crashLife
	case !podReady(pod):
		return false, now.Sub(since) >= startTime
	}
	for _, c := range pod.Status.ContainerStatuses {
		last := c.LastTerminationState.Terminated
		if last != nil && now.Sub(last.FinishedAt.Time) < crashLife && last.FinishedAt.Sub(pod.CreationTimestamp.Time) > startTime {
			return false, true
		}
	}
	return true, true
}
