package capi_test

import (
	"fmt"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestLostAnswersOfTrial loses the response to each write of a trial's begin and end, one per trial. After repeated
// calls, a trial has one Machine, and no objects are left at the end.
func TestLostAnswersOfTrial(t *testing.T) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	p.publish(version)
	before, fewest := p.state(), 3 // a trial takes three writes at least
	for n := 0; ; n++ {
		spec := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: version}, Name: fmt.Sprintf("trial-%d", n), To: p.imageID(version)}
		left, lost := n, 0
		r := p.watched(p, func(string) memory.Outcome {
			if left--; left != -1 {
				return memory.Pass()
			}
			lost++
			return memory.FailAfter(cloud.Unavailable)
		})
		until := func(want cloud.State, look func() (cloud.State, error)) {
			t.Helper()
			p.wait("trial that is "+string(want), func() bool {
				state, err := look()
				if err != nil && !cloud.Is(err, cloud.Unavailable) {
					t.Fatal(err)
				}
				return err == nil && state == want
			})
		}
		until(cloud.Complete, func() (cloud.State, error) {
			have, err := r.EnsureTrial(t.Context(), spec)
			return have.State, err
		})
		if machines, built := len(p.list("Machine")), len(p.list("AWSMachine")); machines != 3 || built != 3 {
			t.Errorf("answer %d lost: the pool and the trial have %d Machines of %d instances, want 3", n, machines, built)
		}
		left = n
		until(cloud.Absent, func() (cloud.State, error) { return r.EndTrial(t.Context(), spec) })
		p.wait("pool as it was", func() bool { return p.state() == before })
		if lost == 0 {
			if n < fewest {
				t.Errorf("only %d answers were lost", n)
			}
			return
		}
	}
}
