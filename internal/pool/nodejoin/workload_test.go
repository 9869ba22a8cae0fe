package nodejoin

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWorkloads: a workload runs well on a node if all of its pods there are Ready, without a crash long after their start.
func TestWorkloads(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	before := func(minutes int) metav1.Time { return metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)) }
	isController := true
	pod := func(change ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "agent-1", CreationTimestamp: before(300), Labels: map[string]string{"controller-revision-hash": "7d9f"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: &isController}},
		}, Spec: corev1.PodSpec{NodeName: "n1"}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: before(299)}}
		for _, c := range change {
			c(&p)
		}
		return p
	}
	unready := func(minutes int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, before(minutes)
		}
	}
	crashed := func(minutes int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1, LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: before(minutes), StartedAt: before(minutes + 100)}}}}
		}
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	const agent = "DaemonSet shop/agent@7d9f"
	well, ill, unknown := map[string]bool{agent: true}, map[string]bool{agent: false}, map[string]bool{}
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want map[string]bool
	}{
		"Ready":                       {[]corev1.Pod{pod()}, well},
		"not Ready for long":          {[]corev1.Pod{pod(unready(11))}, ill},
		"not Ready for a moment":      {[]corev1.Pod{pod(unready(9))}, unknown},
		"crashed":                     {[]corev1.Pod{pod(crashed(50))}, ill},
		"crashed long ago":            {[]corev1.Pod{pod(crashed(61))}, well},
		"crashed at its start":        {[]corev1.Pod{pod(crashed(50), func(p *corev1.Pod) { p.CreationTimestamp = before(55) })}, well},
		"evicted":                     {[]corev1.Pod{pod(phase(corev1.PodFailed), unready(30))}, ill},
		"evicted long ago":            {[]corev1.Pod{pod(phase(corev1.PodFailed), unready(61)), pod()}, well},
		"has ended well":              {[]corev1.Pod{pod(phase(corev1.PodSucceeded), unready(30))}, unknown},
		"is being deleted":            {[]corev1.Pod{pod(unready(30), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })}, unknown},
		"has no controller":           {[]corev1.Pod{pod(unready(30), func(p *corev1.Pod) { p.OwnerReferences = nil })}, unknown},
		"one of two is not Ready":     {[]corev1.Pod{pod(unready(30)), pod()}, ill},
		"a rollout is a new workload": {[]corev1.Pod{pod(unready(30), func(p *corev1.Pod) { p.Labels["controller-revision-hash"] = "8" }), pod()}, map[string]bool{agent: true, "DaemonSet shop/agent@8": false}},
	} {
		if got := workloadsOf(test.pods, now); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}

	one := pod()
	kube := fake.NewClientset(&one)
	found, err := (&Workloads{Kube: kube, Now: func() time.Time { return now }}).On(t.Context(), []string{"n1", "n2"})
	if err != nil || len(found) != 2 || !found["n1"][agent] {
		t.Errorf("%v, %v", found, err)
	}
	for i, call := range kube.Actions() {
		list := call.(clienttesting.ListActionImpl)
		if want := []string{"spec.nodeName=n1", "spec.nodeName=n2"}[i]; list.GetListRestrictions().Fields.String() != want || list.ListOptions.ResourceVersion != "0" {
			t.Errorf("request %d: %+v", i, list.ListOptions)
		}
	}
}
