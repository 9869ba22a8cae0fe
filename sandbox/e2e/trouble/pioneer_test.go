package trouble

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/apt"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// pioneerEnv is a pool whose nodes have apt, with a repository.
func pioneerEnv(t *testing.T, pool string) (*sandboxtest.Env, *apt.Repository) {
	t.Helper()
	e := sandbox.NewEnv(t, pool)
	repository, err := apt.Serve(filepath.Join(t.TempDir(), "repository"))
	e.Must(err)
	t.Cleanup(func() { e.Must(repository.Close()) })
	for _, m := range e.Machines {
		e.Must(repository.Install(m.Disk))
	}
	return e, repository
}

// assertMarks removes the marks of a failed patch, so that the node is as before.
func assertMarks(e *sandboxtest.Env, marks ...string) {
	e.Helper()
	node := e.Node(e.Donor)
	for _, mark := range marks {
		if node.Annotations[mark] == "" {
			e.Errorf("node %s has no mark %s: %v", e.Donor, mark, node.Annotations)
		}
		sandbox.Must(e.T, "kubectl", "annotate", "node", e.Donor, mark+"-")
	}
}

// TestPioneerWithoutAPackageManager: the machine has no dpkg, so the patch fails after the drain. The donor returns to
// service with the marks, and the pool is unchanged.
func TestPioneerWithoutAPackageManager(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=pioneer,nodes=2")
	e.Capture(e.Donor, "--pioneer").ExpectExit(exitFailed, "DonorNotPatched", "/usr/bin/dpkg", v1alpha1.PatchFailedAnnotation, "was returned to service")
	assertMarks(e, v1alpha1.PatchFailedAnnotation, v1alpha1.RebootPendingAnnotation)
	e.AssertReturned(e.Before, e.Donor, 0)
}

// TestPioneerWithABadPackage: the script of a package fails. The level is recorded, and the pool keeps its image. No other node installs the
// package again.
func TestPioneerWithABadPackage(t *testing.T) {
	t.Parallel()
	e, repository := pioneerEnv(t, "name=badpatch,nodes=2")
	e.Must(repository.Publish(apt.Package{Name: "openssl", Before: "3.0.2-0ubuntu1.15", Version: "3.0.2-0ubuntu1.16", Postinst: "exit 1\n"}))
	e.Capture(e.Donor, "--pioneer").ExpectExit(exitFailed, "DonorNotPatched", "packages are not completely installed: openssl",
		"installed openssl package post-installation script subprocess returned error exit status 1", "was returned to service")
	if p := e.AssertFailed("DonorNotPatched").Status.Patch; p == nil || p.FailedLevel == "" || p.FailedLevel != p.Level || p.Result != "incomplete" {
		t.Errorf("status.patch is %+v", p)
	}
	assertMarks(e, v1alpha1.PatchFailedAnnotation, v1alpha1.RebootPendingAnnotation)
	e.AssertReturned(e.Before, e.Donor, 0)
	failed := e.Prototype().Name
	e.Capture(e.Nodes[1], "--pioneer", "--dry-run").ExpectExit(0, "first check which patches are pending on node",
		v1alpha1.PolicyPatchesQuarantined, "of prototype "+failed)
	e.Capture(e.Nodes[1], "--pioneer").ExpectExit(exitRefused, "checks whether its pending patches failed before", v1alpha1.PolicyPatchesQuarantined,
		"failed on the pioneer of prototype "+failed+", and were not installed again", "packages are not completely installed: openssl",
		"kubectl delete prototype "+failed)
	e.AssertState(e.Before)
	if now := e.Machine(e.Nodes[1]); now.Packages["openssl"] != e.Machines[1].Packages["openssl"] {
		t.Errorf("node %s has openssl %s", now.Node, now.Packages["openssl"])
	}
}

// TestPioneerWithADeadRepository: unknown patches are never none. Nothing is installed, and the node has no marks.
func TestPioneerWithADeadRepository(t *testing.T) {
	t.Parallel()
	e, repository := pioneerEnv(t, "name=deadrepo,nodes=2")
	e.Must(repository.Close())
	e.Capture(e.Donor, "--pioneer").ExpectExit(exitFailed, "DonorNotPatched", "installed no patches", "Connection refused", "was returned to service")
	e.AssertReturned(e.Before, e.Donor, 0)
}

// TestPioneerBesideUnattendedUpgrades: another patcher is refused while the node serves.
func TestPioneerBesideUnattendedUpgrades(t *testing.T) {
	t.Parallel()
	e, _ := pioneerEnv(t, "name=otherpatcher,nodes=2")
	for path, text := range map[string]string{
		"etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer": "",
		"usr/bin/unattended-upgrade":                                     "",
		"etc/apt/apt.conf.d/20auto-upgrades":                             "APT::Periodic::Unattended-Upgrade \"1\";\n",
	} {
		path = filepath.Join(e.Machine(e.Donor).Disk, path)
		e.Must(os.MkdirAll(filepath.Dir(path), 0o755))
		e.Must(os.WriteFile(path, []byte(text), 0o600))
	}
	e.Capture(e.Donor, "--pioneer").ExpectExit(exitRefused, "DiskCheckFailed", "stayed in service", "apt-daily-upgrade.timer",
		"systemctl disable --now apt-daily-upgrade.timer")
	e.AssertReturned(e.Before, e.Donor, 0)
}

// newKernel is the script of a package with a new kernel: the next boot uses the kernel.
const newKernel = `if [ "$1" = configure ]; then
	mkdir -p "/lib/modules/%[1]s"
	echo kernel > "/boot/vmlinuz-%[1]s"
	ln -sfn "vmlinuz-%[1]s" /boot/vmlinuz
fi
`

// TestPioneer: apt patches a node of the pool, with a new kernel, which alone needs a reboot. The node is captured and serves again, the
// next node comes up patched and boots the kernel, and no other node runs apt.
func TestPioneer(t *testing.T) {
	t.Parallel()
	e, repository := pioneerEnv(t, "name=patched,nodes=2")
	const patched = "3.0.2-0ubuntu1.16"
	root := e.Machine(e.Donor).Disk
	kernel := disk.NextKernel(disk.Kernel(root))
	e.Must(repository.Publish(apt.Package{Name: "openssl", Before: "3.0.2-0ubuntu1.15", Version: patched},
		apt.Package{Name: disk.KernelPackage(root), Before: disk.Kernel(root), Version: "99.0", Postinst: fmt.Sprintf(newKernel, kernel)}))
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	e.Must(os.WriteFile(settings, []byte("maxConcurrent: 100\nsettings: {trial: {soak: 1s}}\npioneer: {soak: 1s}\n"), 0o600))
	e.Start("capture", e.Donor, "-f", settings, "--pioneer").ExpectExit(0, "Patching", "Rebooting", "Soaking", "Soaked: Passed")
	p := e.AssertSucceeded(e.Donor)
	if p.Status.Patch == nil || p.Status.Patch.Installed != 2 {
		t.Errorf("patch %+v", p.Status.Patch)
	}
	e.AssertServes(e.Donor)
	e.AssertNothingLeft()
	sent := repository.Traffic()
	clone := e.Grow()
	for _, m := range []machine.Status{e.Machine(e.Donor), clone} {
		if running := e.Node(m.Node).Status.NodeInfo.KernelVersion; m.Packages["openssl"] != patched || m.Kernel != kernel || running != kernel {
			t.Errorf("node %s has openssl %s and kernel %s, and runs %s", m.Node, m.Packages["openssl"], m.Kernel, running)
		}
	}
	if clone.Boots != 1 {
		t.Errorf("the next node has booted %d times", clone.Boots)
	}
	if quiet, err := os.ReadFile(filepath.Join(clone.Disk, "etc/apt/apt.conf.d/99kamino-quiet")); err != nil ||
		!strings.Contains(string(quiet), "APT::Periodic::Enable") {
		t.Errorf("the next node is not quiet: %q, %v", quiet, err)
	}
	if later := repository.Traffic().Since(sent); later.Requests > 0 {
		t.Errorf("%d requests reached the repository while the pool grew", later.Requests)
	}
	other := e.Machines[1]
	if now := e.Machine(other.Node); now.BootID != other.BootID || now.Packages["openssl"] != other.Packages["openssl"] {
		t.Errorf("node %s was rebooted, or ran apt: openssl %s", now.Node, now.Packages["openssl"])
	}
}
