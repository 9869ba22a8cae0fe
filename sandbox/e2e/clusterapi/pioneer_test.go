package clusterapi

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/apt"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestAddedPioneer: the pool grows by a Machine, whose node apt patches. The node is captured, and only its Machine is removed. The
// next node comes up patched, and no other node runs apt. On AWS the pool is a group, and on Azure a MachineDeployment.
func TestAddedPioneer(t *testing.T) {
	t.Parallel()
	var kind []string
	if sandboxtest.CurrentCloud() == pool.AWS {
		kind = append(kind, kindMachinePool)
	}
	e := newEnv(t, "pioneered", kind...)
	const patched = "3.0.2-0ubuntu1.16"
	repository, err := apt.Serve(filepath.Join(t.TempDir(), "repository"))
	e.Must(err)
	t.Cleanup(func() { e.Must(repository.Close()) })
	e.Must(repository.Publish(apt.Package{Name: "openssl", Before: "3.0.2-0ubuntu1.15", Version: patched, Postinst: apt.RequestReboot}))
	// The pools of all tests share an image, so the new node gets apt before its disk is inspected.
	cordon := sandboxtest.Request{Server: sandboxtest.APIServer, Pattern: "^PATCH .*/nodes/", Texts: []string{`"unschedulable":true`}}
	e.Barrier().Before(cordon, func() {
		for _, m := range e.MachinesNow() {
			if !slices.Contains(e.Nodes, m.Node) {
				e.Must(repository.Install(m.Disk))
			}
		}
	})
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	e.Must(os.WriteFile(settings, []byte("maxConcurrent: 100\nsettings: {trial: {soak: 1s}}\npioneer: {soak: 1s}\n"), 0o600))
	e.Start("capture", e.Donor, "-f", settings, "--pioneer=Grow").ExpectExit(0, "Growing: inspecting the node's disk", "Patching",
		"Rebooting", "Soaking", "Removing",
		"Soaked: Passed", "so that the pool has its former size")
	p := e.Prototype()
	if p.Status.Patch == nil || p.Status.Patch.Installed != 1 || slices.Contains(e.Nodes, p.Spec.Donor.NodeName) {
		t.Errorf("donor %s, patch %+v", p.Spec.Donor.NodeName, p.Status.Patch)
	}
	e.assertReplaced(p.Spec.Donor.NodeName, 2)
	e.assertUntouched(e.Machines[0])
	sent := repository.Traffic()
	if clone := e.grow(p.Spec.Version); clone.Packages["openssl"] != patched || clone.Boots != 1 {
		t.Errorf("the next node has openssl %s after %d boots", clone.Packages["openssl"], clone.Boots)
	}
	if later := repository.Traffic().Since(sent); later.Requests > 0 {
		t.Errorf("%d requests reached the repository while the pool grew", later.Requests)
	}
	for _, m := range e.Machines {
		if now := e.Machine(m.Node); now.Packages["openssl"] == patched {
			t.Errorf("node %s ran apt", m.Node)
		}
	}
}
