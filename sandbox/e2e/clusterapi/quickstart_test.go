package clusterapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestQuickstart runs the commands of docs/get-started/cluster-api.md, from a rolling pool to the first copy and
// back. The test shortens the trial, and lets other tests capture concurrently.
func TestQuickstart(t *testing.T) {
	onlyOn(t, pool.AWS)
	e := newEnv(t, "quick")
	_, err := sandbox.Objects(e.resource).Patch(t.Context(), e.Pool, types.MergePatchType,
		[]byte(`{"spec":{"rollout":{"strategy":{"type":"RollingUpdate"}}}}`), metav1.PatchOptions{})
	e.Must(err)
	e.captureWithTrial(e.Donor).ExpectExit(exitRefused, "RollingUpdate")

	dir := t.TempDir()
	admin, err := os.ReadFile(filepath.Join(sandbox.Dir(), "kubeconfig"))
	e.Must(err)
	e.Must(os.WriteFile(filepath.Join(dir, "management.kubeconfig"), admin, 0o600))
	out := sandbox.RunPage(t, "../../../docs/get-started/cluster-api.md", dir, nil,
		"NAMESPACE", sandboxtest.ClusterNamespace, "POOL", e.Pool, "registry.example.com/kamino-node:mine", sandboxdir.NodeImage+":sandbox",
		"capture NODE", "capture "+e.Donor+" -f "+sandboxtest.SettingsFile(t, "trial: {soak: 1s}"))
	for _, text := range []string{e.Pool, "nothing is changed. Prototype", "now builds new nodes from version ", "stays in service", "Provisioned: Passed", "current"} {
		if !strings.Contains(out, text) {
			t.Errorf("the page's commands do not write %q:\n%s", text, out)
		}
	}
	e.assertUntouched(e.Machines[0])
	e.assertUntouched(e.Machines[1])
	e.assertWhole(3)
	if template := e.template(); template != e.Pool {
		t.Errorf("the pool names template %s, not its own", template)
	}
	if policy, err := os.ReadFile(filepath.Join(dir, "policy.json")); err != nil || !strings.Contains(string(policy), "ec2:CreateSnapshot") {
		t.Errorf("the policy: %s, %v", policy, err)
	}
}
