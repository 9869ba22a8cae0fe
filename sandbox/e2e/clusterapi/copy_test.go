package clusterapi

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCopy captures a node of each kind of pool by copy. The donor keeps its boot and a pod whose budget allows no eviction, and the
// next node is built from the version. On Azure the capture is refused, and the refusal names the method in place.
func TestCopy(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"copied": "kind=" + string(pool.MachineDeployment), "copiedclass": kindClusterClass + ",max=0", "copiedpool": kindMachinePool,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, name, kind)
			e.patchDonor()
			donor, pod, image := e.Machine(e.Donor), e.StartStubbornPod(e.Donor), e.CloudPool().Image
			capture := e.captureWithTrial(e.Donor, v1alpha1.MethodCopy)
			if sandboxtest.CurrentCloud() == pool.Azure {
				capture.ExpectExit(exitRefused, "SettingUnsupported", "InPlace")
				if now := e.CloudPool().Image; now != image {
					t.Errorf("the pool is built from %s, and was from %s", now, image)
				}
				return
			}
			capture.ExpectExit(0, "stays in service", "out of service for 0s", "Provisioned: Passed")
			p := e.AssertSucceeded(e.Donor)
			e.assertWhole(2)
			e.assertUntouched(donor)
			e.assertUntouched(e.Machines[1])
			e.AssertServed(pod)
			e.grow(p.Spec.Version)
		})
	}
}
