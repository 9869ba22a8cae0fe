package trouble

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestPioneerWithoutAPackageManager: the machine has no dpkg, so the patch fails after the drain. The donor returns to
// service with the marks, and the pool is unchanged.
func TestPioneerWithoutAPackageManager(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=pioneer,nodes=2")
	e.Capture(e.Donor, "--pioneer").ExpectExit(exitFailed, "DonorNotPatched", "/usr/bin/dpkg", v1alpha1.PatchFailedAnnotation, "was returned to service")
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), e.Donor, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{v1alpha1.PatchFailedAnnotation, v1alpha1.RebootPendingAnnotation} {
		if node.Annotations[mark] == "" {
			t.Errorf("node %s has no mark %s: %v", e.Donor, mark, node.Annotations)
		}
		sandbox.Must(t, "kubectl", "annotate", "node", e.Donor, mark+"-")
	}
	e.AssertReturned(e.Before, e.Donor, 0)
}
