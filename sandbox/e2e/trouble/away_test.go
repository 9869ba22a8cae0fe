package trouble

import (
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestAPIServerDownDuringCapture: the command reports the outage, and goes on when the API server is back.
func TestAPIServerDownDuringCapture(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=away,nodes=2")
	barrier := e.Barrier()
	snapshot := barrier.Hold(sandboxtest.CreateSnapshot)
	capture := e.Capture(e.Donor)
	snapshot.Wait()
	barrier.Cut(sandboxtest.APIServer)
	snapshot.Release()
	capture.WaitOutput("trouble: ")
	barrier.Restore(sandboxtest.APIServer)
	capture.ExpectExit(0, "the trouble is over")
	e.AssertCaptured(e.Before, e.Donor)
}
