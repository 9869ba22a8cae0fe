package trialnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// TestQuota: a quota of the namespace that demands requests and limits does not end a trial. Without a quota, the pod requests nothing.
func TestQuota(t *testing.T) {
	w := newTestEnv(t)
	o := &objects{Observer: w.tryout, Subject: w.subject}
	first := o.pod(peer, "n1", probe.Options{}, corev1.PullNever)
	w.must(o.make(t.Context(), &trialRecord{}, peer, first))
	made, err := w.kube.CoreV1().Pods(w.tryout.Namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
	w.must(err)
	if r := made.Spec.Containers[0].Resources; len(r.Requests)+len(r.Limits) > 0 {
		t.Errorf("without a quota: %+v", r)
	}
	hard := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"requests.cpu", "limits.cpu", "requests.memory", "limits.memory", "requests.ephemeral-storage"} {
		hard[name] = resource.MustParse("10Gi")
	}
	quotas := w.kube.CoreV1().ResourceQuotas(w.tryout.Namespace)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	w.must(err)
	quota.Status.Hard, quota.Status.Used = hard, corev1.ResourceList{}
	for name := range hard {
		quota.Status.Used[name] = resource.MustParse("0")
	}
	_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	w.must(err)
	pod := o.pod(onDisk, "n1", probe.Options{}, corev1.PullNever)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // the API server knows the quota a moment later
		_, err := w.kube.CoreV1().Pods(w.tryout.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the quota refuses nothing: %v", err)
		}
	}
	w.must(o.make(t.Context(), &trialRecord{}, onDisk, pod))
	made, err = w.kube.CoreV1().Pods(w.tryout.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	w.must(err)
	if cpu := made.Spec.Containers[0].Resources.Requests.Cpu(); cpu.MilliValue() != 1 {
		t.Errorf("it requests %s", cpu)
	}
}
