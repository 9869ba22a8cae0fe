package clusterapi

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// TestCopy captures a node of each kind of pool by copy. The donor keeps its boot and a pod whose budget allows no eviction, and the
// next node is built from the version.
func TestCopy(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"copied": "kind=" + string(pool.MachineDeployment), "copiedclass": kindClusterClass + ",max=0", "copiedpool": kindMachinePool,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, name, kind)
			e.patchDonor()
			donor, pod := e.Machine(e.Donor), e.StartStubbornPod(e.Donor)
			e.captureWithTrial(e.Donor, v1alpha1.MethodCopy).ExpectExit(0, "stays in service", "out of service for 0s", "Provisioned: Passed")
			p := e.AssertSucceeded(e.Donor)
			e.assertWhole(2)
			e.assertUntouched(donor)
			e.assertUntouched(e.Machines[1])
			e.AssertServed(pod)
			e.grow(p.Spec.Version)
		})
	}
}
