package clusterapi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/apt"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestPioneer: apt patches a node of the pool, which then serves again, and is copied. The next node comes up patched, and no other node
// runs apt. On AWS the pool is a group, and on Azure a MachineDeployment.
func TestPioneer(t *testing.T) {
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
	e.Must(repository.Install(e.Machine(e.Donor).Disk))
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	e.Must(os.WriteFile(settings, []byte("maxConcurrent: 100\nsettings: {trial: {soak: 1s}}\npioneer: {soak: 1s}\n"), 0o600))
	e.Start("capture", e.Donor, "-f", settings, "--pioneer").ExpectExit(0, "Patching", "Rebooting", "Soaking", "Soaked: Passed", "Copying")
	p := e.AssertSucceeded(e.Donor)
	if p.Status.Patch == nil || p.Status.Patch.Installed != 1 || !p.Spec.Settings.CopiesDonor() {
		t.Errorf("settings %+v, patch %+v", p.Spec.Settings.Donor, p.Status.Patch)
	}
	e.assertWhole(2)
	e.assertUntouched(e.Machines[1])
	if pioneer := e.Machine(e.Donor); pioneer.Boots != e.Machines[0].Boots+1 || pioneer.Packages["openssl"] != patched {
		t.Errorf("the pioneer has openssl %s after %d boots", pioneer.Packages["openssl"], pioneer.Boots)
	}
	sent := repository.Traffic()
	if clone := e.grow(p.Spec.Version); clone.Packages["openssl"] != patched || clone.Boots != 1 {
		t.Errorf("the next node has openssl %s after %d boots", clone.Packages["openssl"], clone.Boots)
	}
	if later := repository.Traffic().Since(sent); later.Requests > 0 {
		t.Errorf("%d requests reached the repository while the pool grew", later.Requests)
	}
	if now := e.Machine(e.Nodes[1]); now.Packages["openssl"] == patched {
		t.Errorf("node %s ran apt", now.Node)
	}
}
