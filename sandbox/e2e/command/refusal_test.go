package command

import (
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// TestRefusedPool: nothing of the pool is changed. All reasons for a refusal: conformance's TestRefusals.
func TestRefusedPool(t *testing.T) {
	e := sandbox.NewEnv(t, "name=rolling,nodes=2,upgrade-policy=Rolling")
	for _, args := range [][]string{unverified.Capture(e.Donor, "--dry-run"), unverified.Capture(e.Donor)} {
		e.Start(args...).ExpectExit(3, e.Group, "is Rolling", "Manual")
	}
	assertUnchanged(e, e.Before)
}

// assertUnchanged asserts that a refused command has changed neither the pool nor the cloud, and that no Prototype
// exists.
func assertUnchanged(e *sandboxtest.Env, before sandboxtest.PoolState) {
	e.Helper()
	e.AssertState(before)
	if writes := e.Writes(); len(writes) > 0 {
		e.Errorf("the cloud got the writes %v", writes)
	}
	if p := e.Prototype(); p != nil {
		e.Errorf("there is a Prototype %s, %s", p.Name, p.Status.Phase)
	}
}
