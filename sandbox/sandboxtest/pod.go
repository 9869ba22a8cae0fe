package sandboxtest

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// StartStubbornPod starts a pod on a node with a budget that allows no disruption, and returns the running pod. Kamino's own namespaces
// allow no such pods.
func (e *Env) StartStubbornPod(node string) *corev1.Pod {
	e.Helper()
	kube, ctx := e.Kube(), e.Context()
	name, in := "stubborn-"+e.Pool, metav1.NamespaceDefault
	labels := map[string]string{"app": name}
	one, all, now := int32(1), intstr.FromInt32(1), int64(0)
	_, err := kube.AppsV1().Deployments(in).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  map[string]string{corev1.LabelHostname: node},
					TerminationGracePeriodSeconds: &now,
					Containers:                    []corev1.Container{{Name: "app", Image: "example.com/app:1"}},
				},
			},
		},
	}, metav1.CreateOptions{})
	e.Must(err)
	_, err = kube.PolicyV1().PodDisruptionBudgets(in).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "stay-" + e.Pool},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	e.Must(err)
	var running *corev1.Pod
	e.Eventually("the pod runs and its budget knows it", func() (bool, string) {
		pods, err := kube.CoreV1().Pods(in).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		e.Must(err)
		budget, err := kube.PolicyV1().PodDisruptionBudgets(in).Get(ctx, "stay-"+e.Pool, metav1.GetOptions{})
		e.Must(err)
		if len(pods.Items) != 1 || budget.Status.CurrentHealthy != 1 {
			return false, fmt.Sprintf("%d pods, %d of them healthy for the budget", len(pods.Items), budget.Status.CurrentHealthy)
		}
		running = &pods.Items[0]
		return true, ""
	})
	return running
}

// AssertServed asserts that a pod runs as before: it was neither evicted nor replaced, and its containers did not restart.
func (e *Env) AssertServed(before *corev1.Pod) {
	e.Helper()
	now, err := e.Kube().CoreV1().Pods(before.Namespace).Get(e.Context(), before.Name, metav1.GetOptions{})
	e.Must(err)
	if now.UID != before.UID || now.DeletionTimestamp != nil || now.Status.Phase != corev1.PodRunning {
		e.Errorf("pod %s was %s, and is %s in phase %s, deleted at %v", before.Name, before.UID, now.UID, now.Status.Phase, now.DeletionTimestamp)
	}
	for i, c := range now.Status.ContainerStatuses {
		if c.RestartCount != before.Status.ContainerStatuses[i].RestartCount {
			e.Errorf("container %s of pod %s restarted", c.Name, before.Name)
		}
	}
}
