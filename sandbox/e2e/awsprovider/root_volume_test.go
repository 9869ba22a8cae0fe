package awsprovider

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestRootVolumeBelowDisk refuses a donor whose disk is larger than the root volume of the pool's template. If the template
// shrinks during a capture, the provider refuses the trial's machine, and the capture quotes the provider.
func TestRootVolumeBelowDisk(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "shrunk")
	e.patchDonor()
	capture := e.capture("soak: 1s, timeout: 45s")
	e.WaitPrototype("the donor's disk is in a snapshot", sandboxtest.InPhase(v1alpha1.PhasePublishing))
	e.useRootVolume(20)
	const refused = "root volume size (20) must be greater than or equal to snapshot size (30)"
	capture.ExpectExit(exitFailed, "TrialInconclusive", refused)
	if out := capture.Output(); strings.Contains(out, "kamino promote") {
		t.Errorf("the output advises a promotion that the provider would refuse:\n%s", out)
	}
	if f := e.Prototype().Status.Failure; f == nil || !strings.Contains(f.CloudError, refused) {
		t.Errorf("the failure does not quote the provider: %+v", f)
	}
	e.Start("capture", e.Nodes[1], "--dry-run").ExpectExit(exitRefused, cloud.RootDiskTooLarge, "30 GiB, but the recipe gives new nodes 20 GiB")
}
