package workload

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestApplyIsIdempotent(t *testing.T) {
	client := fake.NewClientset()
	for range 2 {
		if err := Apply(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	deployments, err := client.AppsV1().Deployments(Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 1 {
		t.Errorf("%d deployments, %v", len(deployments.Items), err)
	}
	budget, err := client.PolicyV1().PodDisruptionBudgets(Namespace).Get(t.Context(), Budget, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range budget.Spec.Selector.MatchLabels {
		if deployments.Items[0].Spec.Template.Labels[key] != value {
			t.Errorf("the budget's %s=%s selects no pod of the deployment", key, value)
		}
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		if err := Apply(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Await(short, client); err == nil || !strings.Contains(err.Error(), "0 of 6 replicas") {
			t.Errorf("nothing is ready: %v", err)
		}
		ready, err := client.AppsV1().Deployments(Namespace).Get(t.Context(), Deployment, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ready.Status.ReadyReplicas = replicas
		if _, err := client.AppsV1().Deployments(Namespace).UpdateStatus(t.Context(), ready, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := Await(t.Context(), client); err != nil {
			t.Errorf("all is ready: %v", err)
		}
	})
}
