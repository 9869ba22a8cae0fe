package aws

import (
	"testing"

	"github.com/kamino-dev/kamino/sandbox/region"
)

// exitDenied is kamino's exit code without a right in the cloud.
const exitDenied = 5

// TestPolicyWithoutPowers captures a node by copy with the published policy, which stops and resizes nothing. A capture in place is
// refused before any change, and names what the credential lacks.
func TestPolicyWithoutPowers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "narrow", "profile=eks")
	e.Environ = append(e.Environ, "AWS_ACCESS_KEY_ID="+region.NarrowKeyID)
	donor, state := e.Machines[0].Node, e.State()
	e.Capture(donor, "--method", "InPlace").ExpectExit(exitDenied, "PermissionMissing", "ec2:StopInstances", "autoscaling:EnterStandby",
		"kamino manifests --iam --cloud aws --in-place")
	e.assertWhole()
	e.Capture(donor, "--method", "Copy").ExpectExit(0, "stayed in service")
	e.AssertCopied(state, donor)
}
