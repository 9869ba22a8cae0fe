package trouble

import (
	"testing"
	"time"
)

// TestDrainBlockedByABudget: the donor returns to service without a restart.
func TestDrainBlockedByABudget(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=budget,nodes=2")
	pod := e.StartStubbornPod(e.Donor)
	before := e.State()
	capture := e.CaptureWith(e.Donor, "drain: {timeout: 20m}")
	capture.WaitOutput("disruption budget stay")
	ageReservation(e, 21*time.Minute)
	capture.ExpectExit(exitFailed, "node "+e.Donor+" was not drained within 20m", pod.Namespace+"/"+pod.Name, "disruption budget stay",
		"set settings.drain.force", "the capture of node "+e.Donor+" failed; the node was returned to service")
	e.AssertReturned(before, e.Donor, 0)
	e.AssertFailed("DrainTimeout")
	assertEvents(e, "PartlyRestorable", "Reserved", "DrainTimeout", "Released")
	if e.CountWrites("instance powerOff") > 0 {
		t.Error("the donor was stopped")
	}
}
