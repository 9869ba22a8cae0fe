package awsprovider

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCapture captures a node of a MachineDeployment in place. The provider runs the trial's machine and the next machine, touches no
// other machine, and builds machines of the old image after `kamino restore`.
func TestCapture(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "captured")
	generic, ofPool := e.Machines[0].Image, e.template().GetName()
	if err := e.patch("awsmachinetemplates", ofPool, `{"spec":{"template":{"spec":{"instanceType":"m6i.xlarge"}}}}`); err == nil ||
		!strings.Contains(err.Error(), "AWSMachineTemplate.Spec is immutable") {
		t.Fatalf("the provider's webhook does not refuse a changed template: %v", err)
	}
	e.captureInPlace("soak: 1s").ExpectExit(0, "now builds new nodes from version ", "after the drain and is replaced", "Provisioned: Passed")
	version := e.AssertSucceeded(e.Donor).Spec.Version
	e.AssertNodeGone(e.Donor)
	e.assertUntouched(e.Machines[1])
	if image := sandboxtest.Text(*e.template(), "spec", "template", "spec", "ami", "id"); e.VersionOf(image) != version {
		t.Errorf("the template of the pool names image %s, want version %s", image, version)
	}
	copied := e.Grow()
	e.waitMachine(copied.Node)
	if built := e.VersionOf(copied.Image); built != version {
		t.Errorf("node %s was built from version %q, want %q", copied.Node, built, version)
	}
	machines, err := sandbox.ObjectsOf(t.Context(), e.Pool, "awsmachines")
	e.Must(err)
	for _, m := range machines {
		if !slices.Contains(m.GetFinalizers(), "awsmachine.infrastructure.cluster.x-k8s.io") {
			t.Errorf("AWSMachine %s is not of the real provider: it has the finalizers %v", m.GetName(), m.GetFinalizers())
		}
	}
	if len(machines) != len(e.MachinesNow()) {
		t.Errorf("the pool has %d AWSMachines and %d instances", len(machines), len(e.MachinesNow()))
	}
	e.Start("restore", e.Pool, "--yes", "--version", version).ExpectExit(0)
	if name := e.template().GetName(); name != ofPool {
		t.Errorf("the pool names template %s, not its own", name)
	}
	if last := e.Grow(); last.Image != generic {
		t.Errorf("after the recipe was restored, node %s was built from %s", last.Node, last.Image)
	}
	e.AssertNothingLeft()
}

// TestRootVolumeBelowDisk refuses a donor whose disk is larger than the root volume of the pool's template. If the template
// shrinks during a capture, the provider refuses the trial's machine, and the capture quotes the provider.
func TestRootVolumeBelowDisk(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "shrunk")
	capture := e.captureInPlace("soak: 1s, timeout: 45s")
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

// TestGroup captures a node of a MachinePool in place, which is an Auto Scaling group. The provider writes the image into the launch
// template, and starts no instance refresh. The provider looks at a group every three minutes, and at each change of the
// AWSMachinePool.
func TestGroup(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "grouped", "kind=MachinePool")
	capture := e.captureInPlace("soak: 1s")
	e.Eventually("the group grows", func() (bool, string) { return len(e.MachinesNow()) == 3, capture.Output() })
	e.Must(e.patch("awsmachinepools", e.Pool, `{"metadata":{"annotations":{"sandbox.kamino.dev/look":"now"}}}`))
	capture.ExpectExit(0, "now builds new nodes from version ", "Provisioned: Passed")
	version := e.AssertSucceeded(e.Donor).Spec.Version
	e.AssertNodeGone(e.Donor)
	e.assertUntouched(e.Machines[1])
	refreshes, err := sandbox.AWS().Groups().DescribeInstanceRefreshes(t.Context(), &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: &e.Pool})
	e.Must(err)
	if len(refreshes.InstanceRefreshes) > 0 {
		t.Errorf("the provider replaced instances: %+v", refreshes.InstanceRefreshes)
	}
	if copied := e.Grow(); e.VersionOf(copied.Image) != version {
		t.Errorf("node %s was built from %s, want version %s", copied.Node, copied.Image, version)
	}
	e.AssertNothingLeft()
}
