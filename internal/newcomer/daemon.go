package newcomer

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/probation"
)

// MaxNodes is of how many nodes at most the pods of DaemonSets are looked at at once. Of the others nothing is held against
// their version but what they say themselves.
const MaxNodes = 20

// manyRestarts of a pod are a pod that crashes: how long it has not been Ready says little then.
const manyRestarts = 3

// Lacks tells which of the nodes lack a DaemonSet that is healthy on the others. It lists the DaemonSets once, and the pods of
// at most MaxNodes nodes. Those to ignore are DaemonSets as namespace/name.
func Lacks(ctx context.Context, kube kubernetes.Interface, nodes, ignore []string) (map[string]Lack, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	nodes = nodes[:min(len(nodes), MaxNodes)]
	sets, err := kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets: %w", err)
	}
	pods := map[string][]corev1.Pod{}
	for _, node := range nodes {
		list, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
		if err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
		}
		pods[node] = list.Items
	}
	lacks := map[string]Lack{}
	for i := range sets.Items {
		set := &sets.Items[i]
		if slices.Contains(ignore, set.Namespace+"/"+set.Name) || !healthyElsewhere(set, pods) {
			continue
		}
		for node, its := range pods {
			pod := podOf(set, its)
			if pod == nil || podReady(pod) {
				continue
			}
			lack := Lack{DaemonSet: set.Namespace + "/" + set.Name, Since: notReadySince(pod)}
			if before, lacking := lacks[node]; !lacking || lack.Since.Before(before.Since) || lack.Since.Equal(before.Since) && lack.DaemonSet < before.DaemonSet {
				lacks[node] = lack
			}
		}
	}
	return lacks, nil
}

// healthyElsewhere tells whether nearly all pods of a DaemonSet on other nodes than these are Ready, and there are some.
func healthyElsewhere(set *appsv1.DaemonSet, pods map[string][]corev1.Pod) bool {
	desired, ready := int(set.Status.DesiredNumberScheduled), int(set.Status.NumberReady)
	for _, its := range pods {
		if pod := podOf(set, its); pod != nil {
			desired--
			if podReady(pod) {
				ready--
			}
		}
	}
	return desired > 0 && ready*100 >= desired*probation.Healthy
}

// podOf is the DaemonSet's own among a node's pods; nil if it has none there.
func podOf(set *appsv1.DaemonSet, pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		if owner := metav1.GetControllerOf(&pods[i]); owner != nil && owner.UID == set.UID && owner.Kind == "DaemonSet" && pods[i].DeletionTimestamp == nil {
			return &pods[i]
		}
	}
	return nil
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// notReadySince is since when; for one that crashes again and again since it was made.
func notReadySince(pod *corev1.Pod) time.Time {
	restarts := int32(0)
	for _, c := range pod.Status.ContainerStatuses {
		restarts = max(restarts, c.RestartCount)
	}
	if restarts < manyRestarts {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
				return c.LastTransitionTime.Time
			}
		}
	}
	return pod.CreationTimestamp.Time
}
