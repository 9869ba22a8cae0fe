package chart

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/chart"
)

// TestUpgrade changes the mode of a release and its policies. Kept objects keep their UIDs, and other objects are
// deleted.
func TestUpgrade(t *testing.T) {
	skipOtherClouds(t)
	helm := newHelm(t, "upgrade", "restricted")
	image := chart.Values{"repository": simulated}
	before := chart.Values{"image": image, "policies": chart.Values{"stays": chart.Values{}, "goes": chart.Values{}}}
	if err := helm.install(t.Context(), "up", before, false); err != nil {
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

	after := chart.Values{"image": image, "mode": "cronjob",
		"policies": chart.Values{"stays": chart.Values{"dryRun": true}, "comes": chart.Values{"suspend": true}}}
	if err := helm.upgrade(t.Context(), "up", after, false); err != nil {
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

	// The same values again change nothing, so a tool that compares them with the cluster sees no drift.
	first := stamps(t, "up")
	if err := helm.upgrade(t.Context(), "up", after, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, stamps(t, "up")); diff != "" || len(first) < 15 {
		t.Errorf("an upgrade with the same values changed objects (-before +after):\n%s", diff)
	}

	// A Job is immutable: the same content keeps the Job, and job.run makes another.
	jobs := func(run int) types.UID {
		values := chart.Values{"image": image, "mode": "job", "job": chart.Values{"node": "n1", "run": run}}
		if err := helm.upgrade(t.Context(), "up", values, false); err != nil {
			t.Fatal(err)
		}
		list, err := sandbox.Kube().BatchV1().Jobs(helm.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: instance + "=up"})
		live := slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return j.DeletionTimestamp != nil })
		if err != nil || len(live) != 1 {
			t.Fatalf("%d Jobs after run %d: %v", len(live), run, err)
		}
		return live[0].UID
	}
	if one, again, two := jobs(1), jobs(1), jobs(2); one != again || one == two {
		t.Errorf("the Jobs of two equal upgrades and another run: %s, %s, %s", one, again, two)
	}
	if err := helm.uninstall("up"); err != nil {
		t.Fatal(err)
	}
}

// TestDefinitionsOfAnotherVersion runs each command of docs/tasks/upgrade.md that replaces the definitions. The user's objects
// stay, and the rules of the other version go.
func TestDefinitionsOfAnotherVersion(t *testing.T) {
	skipOtherClouds(t)
	page, err := os.ReadFile("../../../docs/tasks/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^.*kubectl apply .*--field-manager=helm .*$`).FindAllString(string(page), -1)
	slices.Sort(commands)
	if commands = slices.Compact(commands); len(commands) != 2 {
		t.Fatalf("the page has the commands %q", commands)
	}
	shell(t, commands[0])
	sandbox.Must(t, "kubectl", "wait", "--for=condition=Established", "crd/prototypepolicies.kamino.dev")
	const other = `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/other","value":{"type":"string"}}]`
	eventually(t, "the namespace is there", func() bool { // another test may have deleted it
		sandbox.Run(t, nil, "kubectl", "create", "namespace", v1alpha1.DefaultNamespace)
		return sandbox.Run(t, nil, "kubectl", "get", "namespace", v1alpha1.DefaultNamespace, "-o", "jsonpath={.status.phase}").Stdout == "Active"
	})
	kept := createUserObjects(t)
	for _, command := range commands {
		sandbox.Must(t, "kubectl", "patch", "crd", "prototypepolicies.kamino.dev", "--type=json", "-p", other)
		shell(t, command)
		if definition := sandbox.Must(t, "kubectl", "get", "crd", "prototypepolicies.kamino.dev", "-o",
			"jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.other}"); definition != "" {
			t.Errorf("after %q the definition still has %s", command, definition)
		}
		wantUserObjects(t, kept)
	}
}

// instance is the label with the name of a release.
const instance = "app.kubernetes.io/instance"

// stamps returns a stamp for each object of a release. A change of the object renews the stamp, but a status does not.
func stamps(t *testing.T, release string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, resource := range []schema.GroupVersionResource{
		policies, batchv1.SchemeGroupVersion.WithResource("cronjobs"),
		corev1.SchemeGroupVersion.WithResource("serviceaccounts"), corev1.SchemeGroupVersion.WithResource("namespaces"),
		networkingv1.SchemeGroupVersion.WithResource("networkpolicies"),
		rbacv1.SchemeGroupVersion.WithResource("roles"), rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		rbacv1.SchemeGroupVersion.WithResource("clusterroles"), rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"),
	} {
		list, err := objects(t).Resource(resource).List(t.Context(), metav1.ListOptions{LabelSelector: instance + "=" + release})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			stamp := o.GetResourceVersion()
			if o.GetGeneration() > 0 {
				stamp = fmt.Sprint(o.GetGeneration())
			}
			all[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = string(o.GetUID()) + " " + stamp
		}
	}
	return all
}
