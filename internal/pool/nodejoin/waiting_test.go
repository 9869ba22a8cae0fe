package nodejoin

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestPodsWait: only pods that the scheduler recently found unschedulable make pool growth likely.
func TestPodsWait(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"no node takes it": {func(*corev1.Pod) {}, true},
		"for half an hour": {func(p *corev1.Pod) {
			p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(now.Add(-freshlyWaiting))
		}, false},
		"it has a node":            {func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, false},
		"it goes":                  {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }, false},
		"a gate holds it":          {func(p *corev1.Pod) { p.Status.Conditions[1].Reason = corev1.PodReasonSchedulingGated }, false},
		"no look at it yet":        {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		"the scheduler found none": {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionTrue }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Status: corev1.PodStatus{
				Phase: corev1.PodPending,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
					LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
				}},
			}}
			test.change(pod)
			kube := fake.NewClientset(pod)
			got, err := PodsWait(t.Context(), kube, now)
			if err != nil || got != test.want {
				t.Errorf("%t %v, want %t", got, err, test.want)
			}
			if calls := kube.Actions(); len(calls) != 1 {
				t.Errorf("%d requests: %v", len(calls), calls)
			} else if of := calls[0].(clienttesting.ListAction).GetListRestrictions().Fields.String(); of != "spec.nodeName=,status.phase=Pending" {
				t.Errorf("of all pods it asks for %q", of)
			}
		})
	}
	kube := fake.NewClientset()
	kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	if _, err := PodsWait(t.Context(), kube, now); err == nil || !strings.Contains(err.Error(), "list pods without a node: forbidden") {
		t.Errorf("error: %v", err)
	}
}
