package trouble

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload puts a pod with a budget that allows no disruption onto a node, and returns its name.
func (g *ground) workload(node string) string {
	g.Helper()
	kube, ctx := sandbox.Kube(), g.Context()
	labels := map[string]string{"app": "stubborn"}
	one, all, now := int32(1), intstr.FromInt32(1), int64(0)
	_, err := kube.AppsV1().Deployments(g.namespace).Create(ctx, &appsv1.Deployment{
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
	g.must(err)
	_, err = kube.PolicyV1().PodDisruptionBudgets(g.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "stay"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	g.must(err)
	var name string
	eventually(g.T, "the pod runs and its budget knows it", func() (bool, string) {
		pods, err := kube.CoreV1().Pods(g.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=stubborn"})
		g.must(err)
		budget, err := kube.PolicyV1().PodDisruptionBudgets(g.namespace).Get(ctx, "stay", metav1.GetOptions{})
		g.must(err)
		if len(pods.Items) != 1 || budget.Status.CurrentHealthy != 1 {
			return false, "it does not"
		}
		name = pods.Items[0].Name
		return true, ""
	})
	return name
}

func TestDrainBlockedByABudget(t *testing.T) {
	g := newGround(t, "name=budget,nodes=2")
	pod := g.workload(g.nodes[0])
	before := g.look()
	capture := g.capture(g.nodes[0], "--drain-timeout", "20m")
	eventually(t, "the budget is in the way", func() (bool, string) {
		return capture.heard("disruption budget stay"), capture.stderr.String()
	})
	g.age(g.nodes[0], 21*time.Minute)
	capture.ends(t, 4, "node "+g.nodes[0]+" was not drained within 20m", g.namespace+"/"+pod, "disruption budget stay",
		"use force", "the capture of node "+g.nodes[0]+" has failed; it was given back")
	// The pod has not been restarted, nor the node.
	g.givenBack(before, g.nodes[0], 0)
	g.failed("DrainTimeout")
	g.recorded("NoWayBack", "Reserved", "DrainTimeout", "Released")
	if asked := count(g.writes(), "instance powerOff"); asked > 0 {
		t.Error("the donor was stopped")
	}
}

func TestPodThatNothingMakesAgain(t *testing.T) {
	g := newGround(t, "name=naked,nodes=2")
	_, err := sandbox.Kube().CoreV1().Pods(g.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "naked"},
		Spec:       corev1.PodSpec{NodeName: g.nodes[0], Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
	}, metav1.CreateOptions{})
	g.must(err)
	g.refuses(g.nodes[0], 3, "node "+g.nodes[0]+" cannot be drained", g.namespace+"/naked", "use force to lose them")
}
