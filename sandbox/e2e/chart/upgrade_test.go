package chart

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/chart"
)

// TestUpgrade changes the mode of a release and its policies. Kept objects keep their UIDs, and other objects are
// deleted.
func TestUpgrade(t *testing.T) {
	skipOtherClouds(t)
	helm := newHelm(t, "upgrade", "restricted")
	image := chart.Values{"repository": simulated}
	before := chart.Values{"image": image, "policies": chart.Values{"stays": chart.Values{}, "goes": chart.Values{}}}
	if err := helm.Install(t.Context(), "up", before, false); err != nil {
		t.Fatal(err)
	}
	const name = "up-kamino"
	policy := func(name string) (types.UID, string, error) {
		p, err := objects(t).Resource(policies).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", "", err
		}
		spec := p.Object["spec"].(map[string]any)
		dry, _ := spec["dryRun"].(bool)
		if dry {
			return p.GetUID(), "dry", nil
		}
		return p.GetUID(), "", nil
	}
	stays, _, err := policy("stays")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := sandbox.Kube().CoreV1().Namespaces().Get(t.Context(), name+"-generalize", metav1.GetOptions{})
	if err != nil || pods.Labels[enforced] != "privileged" {
		t.Fatalf("the pods' namespace: %v, %v", pods.Labels, err)
	}

	after := chart.Values{"image": image, "mode": "cronjob", "policies": chart.Values{"stays": chart.Values{"dryRun": true}, "comes": chart.Values{"suspend": true}}}
	if err := helm.Upgrade(t.Context(), "up", after, false); err != nil {
		t.Fatal(err)
	}
	if uid, changed, err := policy("stays"); err != nil || uid != stays || changed != "dry" {
		t.Errorf("the policy that stays: %s (was %s), %q, %v", uid, stays, changed, err)
	}
	if _, _, err := policy("comes"); err != nil {
		t.Error(err)
	}
	eventually(t, "the policy that goes is gone", func() bool { _, _, err := policy("goes"); return missing(err) })
	if _, err := sandbox.Kube().BatchV1().CronJobs(helm.Namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, "the Deployment is gone", func() bool {
		_, err := sandbox.Kube().AppsV1().Deployments(helm.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		return missing(err)
	})
	again, err := sandbox.Kube().CoreV1().Namespaces().Get(t.Context(), pods.Name, metav1.GetOptions{})
	if err != nil || again.UID != pods.UID {
		t.Errorf("the pods' namespace was created again: %v", err)
	}

	// A Job is immutable. So another run has another Job, and an upgrade that changes nothing keeps the Job.
	upgraded := func(run string) types.UID {
		job := chart.Values{"image": image, "mode": "job", "job": chart.Values{"node": "n1", "run": run}}
		if err := helm.Upgrade(t.Context(), "up", job, false); err != nil {
			t.Fatal(err)
		}
		jobs, err := sandbox.Kube().BatchV1().Jobs(helm.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=job"})
		if err != nil {
			t.Fatal(err)
		}
		jobs.Items = slices.DeleteFunc(jobs.Items, func(j batchv1.Job) bool { return j.DeletionTimestamp != nil })
		if len(jobs.Items) != 1 {
			t.Fatalf("%d Jobs after an upgrade to run %q", len(jobs.Items), run)
		}
		return jobs.Items[0].UID
	}
	first := upgraded("1")
	if again := upgraded("1"); again != first {
		t.Error("an upgrade without a change has another Job")
	}
	if second := upgraded("2"); second == first {
		t.Error("another run has the same Job")
	}
	if err := helm.Uninstall("up"); err != nil {
		t.Fatal(err)
	}
}
