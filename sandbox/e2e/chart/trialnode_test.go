package chart

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/chart"
)

// TestOnlyNodesOfTrialsAreDeleted uses a release's account with the right to delete the Nodes of trials. It deletes neither a Node that
// serves nor a Node without the mark of a trial, and cannot change what a Node reports. Other accounts are not restricted.
func TestOnlyNodesOfTrialsAreDeleted(t *testing.T) {
	skipOtherClouds(t)
	helm := newHelm(t, "trialnodes", "restricted")
	values := chart.Values{"image": chart.Values{"repository": simulated}, "rbac": chart.Values{"deleteTrialNodes": true}}
	if err := helm.install(t.Context(), "trialnodes", values, false); err != nil {
		t.Fatal(err)
	}
	as, nodes := impersonate(t, "system:serviceaccount:trialnodes:trialnodes-kamino"), sandbox.Kube().CoreV1().Nodes()
	for request, want := range map[request]bool{
		"delete nodes -/x": true, "deletecollection nodes": false, "update nodes/status -/x": false, "patch nodes/status -/x": false,
		"get persistentvolumeclaims default/x": false, "list persistentvolumes": false,
	} {
		if got := allowed(t, as, request); got != want {
			t.Errorf("it may %s: %t", request, got)
		}
	}
	serving := sandbox.MachinesOf(t, "workers")[0].Node
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	var err error
	eventually(t, "the API server enforces the policy", func() bool {
		err = as.CoreV1().Nodes().Delete(t.Context(), serving, dry)
		return err != nil
	})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Kamino deletes no node but those of trials") {
		t.Errorf("a node that serves: %v", err)
	}
	if err := nodes.Delete(t.Context(), serving, dry); err != nil {
		t.Errorf("another account is refused, too: %v", err)
	}
	for name, labels := range map[string]map[string]string{"trialnodes-unmarked": nil, "trialnodes-trial": {v1alpha1.TrialKey: "uid"}} {
		if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := as.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
		if isMarked := labels != nil; isMarked && err != nil || !isMarked && !apierrors.IsForbidden(err) {
			t.Errorf("node %s, which is down: %v", name, err)
		}
	}
	if err := nodes.Delete(t.Context(), "trialnodes-unmarked", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := helm.uninstall("trialnodes"); err != nil {
		t.Fatal(err)
	}
}
