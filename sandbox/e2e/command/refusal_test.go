package command

import (
	"testing"

	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// TestRefusedPool: nothing of the pool is changed. All reasons for a refusal: conformance's TestRefusals.
func TestRefusedPool(t *testing.T) {
	e := sandbox.NewEnv(t, "name=rolling,nodes=2,upgrade-policy=Rolling")
	for _, args := range [][]string{unverified.Capture(e.Donor, "--dry-run"), unverified.Capture(e.Donor)} {
		e.Start(args...).ExpectExit(3, e.Group, "is Rolling", "Manual")
	}
	e.AssertUnchanged(e.Before)
}
