package trouble

import (
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// TestOneNodeOfTheClusterAtATime: a capture waits for the donor of another capture. The test does not run in
// parallel, because every donor of the cluster matters.
func TestOneNodeOfTheClusterAtATime(t *testing.T) {
	first, second := sandbox.NewEnv(t, "name=ahead,nodes=2"), sandbox.NewEnv(t, "name=behind,nodes=2")
	snapshot := first.Barrier().Hold(sandboxtest.CreateSnapshot)
	ahead := first.Start(unverified.Capture(first.Donor)...)
	snapshot.Wait()
	behind := second.Start(unverified.Capture(second.Donor)...)
	behind.WaitOutput("waiting for prototype " + first.Prototype().Name + ", which holds node " + first.Donor)
	if writes := second.Writes(); len(writes) > 0 {
		t.Errorf("the second began: %v", writes)
	}
	snapshot.Release()
	ahead.ExpectExit(0)
	behind.ExpectExit(0)
	first.AssertCaptured(first.Before, first.Donor)
	second.AssertCaptured(second.Before, second.Donor)
}

// TestTwoCommandsForTwoNodesOfAPool: both commands decide before either has written its Prototype. One command is
// refused.
func TestTwoCommandsForTwoNodesOfAPool(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=rivals,nodes=3")
	meet(e.Barrier(), 2, sandboxtest.CreatePrototype)
	winner, loser := e.Capture(e.Nodes[0], today), e.Capture(e.Nodes[1], today)
	donor := e.Nodes[0]
	if winner.ExitCode() != 0 {
		winner, loser, donor = loser, winner, e.Nodes[1]
	}
	winner.ExpectExit(0)
	loser.ExpectExit(exitRefused, "Prototype "+e.Prototype().Name, donor, "nothing was changed")
	e.AssertCaptured(e.Before, donor)
}

// meet delays the first matching requests until this number of requests has arrived.
func meet(b *sandboxtest.Barrier, requests int, r sandboxtest.Request) {
	var all sync.WaitGroup
	all.Add(requests)
	for range requests {
		b.Before(r, func() {
			all.Done()
			all.Wait()
		})
	}
}
