package trouble

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// startStubbornPod starts a pod on a node with a budget that allows no disruption, and returns the pod's name.
func startStubbornPod(e *sandboxtest.Env, node string) string {
	e.Helper()
	kube, ctx := e.Kube(), e.Context()
	labels := map[string]string{"app": "stubborn"}
	one, all, now := int32(1), intstr.FromInt32(1), int64(0)
	_, err := kube.AppsV1().Deployments(e.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "stubborn"},
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
	_, err = kube.PolicyV1().PodDisruptionBudgets(e.Namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "stay"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	e.Must(err)
	var name string
	e.Eventually("the pod runs and its budget knows it", func() (bool, string) {
		pods, err := kube.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=stubborn"})
		e.Must(err)
		budget, err := kube.PolicyV1().PodDisruptionBudgets(e.Namespace).Get(ctx, "stay", metav1.GetOptions{})
		e.Must(err)
		if len(pods.Items) != 1 || budget.Status.CurrentHealthy != 1 {
			return false, fmt.Sprintf("%d pods, %d of them healthy for the budget", len(pods.Items), budget.Status.CurrentHealthy)
		}
		name = pods.Items[0].Name
		return true, ""
	})
	return name
}

// TestDrainBlockedByABudget: the donor returns to service without a restart.
func TestDrainBlockedByABudget(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=budget,nodes=2")
	pod := startStubbornPod(e, e.Donor)
	before := e.State()
	capture := e.CaptureWith(e.Donor, "drain: {timeout: 20m}")
	capture.WaitOutput("disruption budget stay")
	ageReservation(e, 21*time.Minute)
	capture.ExpectExit(exitFailed, "node "+e.Donor+" was not drained within 20m", e.Namespace+"/"+pod, "disruption budget stay",
		"set settings.drain.force", "the capture of node "+e.Donor+" failed; the node was returned to service")
	e.AssertReturned(before, e.Donor, 0)
	e.AssertFailed("DrainTimeout")
	assertEvents(e, "PartlyRestorable", "Reserved", "DrainTimeout", "Released")
	if e.CountWrites("instance powerOff") > 0 {
		t.Error("the donor was stopped")
	}
}
