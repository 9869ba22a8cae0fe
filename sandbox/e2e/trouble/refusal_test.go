package trouble

import "testing"

// TestPoolCapturedTodayAlready: a second capture on the same day is refused for each node of the pool.
func TestPoolCapturedTodayAlready(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=today,nodes=2")
	e.Capture(e.Donor, today).ExpectExit(0)
	e.AssertCaptured(e.Before, e.Donor)
	e.AssertEvents("PartlyRestorable", "Reserved", "Generalized", "Released", "Promoting", "Promoted")

	first := e.State()
	e.ResetWrites()
	for _, node := range e.Nodes {
		e.Capture(node, today).ExpectExit(exitRefused, "pool "+e.Group+" already has version ", "Prototype "+e.Prototype().Name, "nothing was changed")
	}
	e.AssertReturned(first, e.Donor, 0)
	if writes := e.Writes(); len(writes) > 0 {
		t.Errorf("the cloud got the writes %v", writes)
	}
}
