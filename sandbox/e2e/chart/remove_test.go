package chart

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/chart"
)

// TestServingNodesAreNotDeleted uses a release's account with the right to delete Nodes. The account can neither
// delete a Ready Node nor change its readiness. A Node that is not Ready can be deleted. Other accounts are not
// restricted.
func TestServingNodesAreNotDeleted(t *testing.T) {
	skipOtherClouds(t)
	helm := newHelm(t, "removes", "restricted")
	values := chart.Values{"image": chart.Values{"repository": simulated}, "rbac": chart.Values{"removeDonors": true}}
	if err := helm.install(t.Context(), "removes", values, false); err != nil {
		t.Fatal(err)
	}
	as := impersonate(t, "system:serviceaccount:removes:removes-kamino")
	for request, want := range map[request]bool{
		"delete nodes -/x": true, "deletecollection nodes": false, "update nodes/status -/x": false, "patch nodes/status -/x": false,
		"get persistentvolumeclaims default/x": true, "list persistentvolumeclaims default": false, "list persistentvolumes": true,
		"delete persistentvolumes -/x": false,
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
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Kamino deletes no node that is Ready") {
		t.Errorf("a node that serves: %v", err)
	}
	if err := sandbox.Kube().CoreV1().Nodes().Delete(t.Context(), serving, dry); err != nil {
		t.Errorf("another account is refused, too: %v", err)
	}
	down := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "removes-down"}}
	if _, err := sandbox.Kube().CoreV1().Nodes().Create(t.Context(), down, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := as.CoreV1().Nodes().Delete(t.Context(), down.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("a node that is down: %v", err)
	}
	if err := helm.uninstall("removes"); err != nil {
		t.Fatal(err)
	}
}
