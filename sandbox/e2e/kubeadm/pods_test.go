package kubeadm

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// runPod runs a pod that no controller would make again, and returns the pods of the node.
func (e env) runPod(node string) (pods map[types.UID]int32) {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "serves-" + node}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}},
	}}
	_, err := e.Kube().CoreV1().Pods(metav1.NamespaceDefault).Create(e.Context(), pod, metav1.CreateOptions{})
	e.Must(err)
	e.Eventually("the pod runs", func() (bool, string) {
		pods = e.podsOn(node)
		return len(pods) > 0, fmt.Sprint(pods)
	})
	return pods
}

// podsOn are the users' pods of a node by UID, with the restarts of their containers.
func (e env) podsOn(node string) map[types.UID]int32 {
	e.Helper()
	list, err := e.Kube().CoreV1().Pods(metav1.NamespaceAll).List(e.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	e.Must(err)
	found := map[types.UID]int32{}
	for _, pod := range list.Items {
		if pod.Namespace == e.PodNamespace || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		found[pod.UID] = 0
		for _, c := range pod.Status.ContainerStatuses {
			found[pod.UID] += c.RestartCount
		}
	}
	return found
}
