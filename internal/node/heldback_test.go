package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pod creates a Ready pod on the node. A budget counts Ready pods only.
func (y *nodeEnv) pod(app string) *corev1.Pod {
	y.Helper()
	one := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: app + "-", Labels: map[string]string{"app": app + y.name}},
		Spec:       corev1.PodSpec{NodeName: y.name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	pods := y.kube.CoreV1().Pods("default")
	made, err := pods.Create(y.Context(), one, metav1.CreateOptions{})
	y.must(err)
	made.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	made, err = pods.UpdateStatus(y.Context(), made, metav1.UpdateOptions{})
	y.must(err)
	return made
}

// budget creates a budget with a status as the disruption controller computes the status.
func (y *nodeEnv) budget(app string, allowed int32) *policyv1.PodDisruptionBudget {
	y.Helper()
	least := intstr.FromInt32(1)
	budgets := y.kube.PolicyV1().PodDisruptionBudgets("default")
	made, err := budgets.Create(y.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{GenerateName: app + "-"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app + y.name}}},
	}, metav1.CreateOptions{})
	y.must(err)
	made.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: made.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1 + allowed,
		DesiredHealthy: 1, ExpectedPods: 1 + allowed}
	made, err = budgets.UpdateStatus(y.Context(), made, metav1.UpdateOptions{})
	y.must(err)
	return made
}

// TestHeldBackEvictsNoPod: HeldBack returns the API server's text of each blocking budget and evicts no pod.
func TestHeldBackEvictsNoPod(t *testing.T) {
	y := newYard(t, nil)
	kept, free, ending := y.pod("kept"), y.pod("free"), y.pod("kept")
	tight, loose := y.budget("kept", 0), y.budget("free", 1)
	gone := free.DeepCopy()
	gone.Name = "gone"
	at := now()
	ending.DeletionTimestamp = &at
	blocked := HeldBack(t.Context(), y.kube, Remaining{Pods: []corev1.Pod{*free, *kept, *ending, *gone}})
	want := BlockedPod{"default/" + kept.Name, "The disruption budget " + tight.Name + " needs 1 healthy pods and has 1 currently"}
	if len(blocked) != 1 || blocked[0] != want {
		t.Errorf("held back: %q, want %q", blocked, want)
	}
	for _, pod := range []*corev1.Pod{kept, free} {
		if now, err := y.kube.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || now.DeletionTimestamp != nil {
			t.Errorf("pod %s was evicted: %v", pod.Name, err)
		}
	}
	after, err := y.kube.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), loose.Name, metav1.GetOptions{})
	if err != nil || after.Status.DisruptionsAllowed != 1 || len(after.Status.DisruptedPods) != 0 {
		t.Errorf("the budget was charged for a look: %+v, %v", after.Status, err)
	}
}
