package capi_test

import (
	"fmt"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// ofOwner are tags of a workshop.
var ofOwner = map[string]string{cloud.TagUID: "u", cloud.TagEndsAt: "2026-01-09T05:05:06Z"}

// TestLostAnswersOfTrial loses the response to each write of a trial's begin and end, one per trial. After repeated
// calls, a trial has one Machine, and no objects are left at the end.
func TestLostAnswersOfTrial(t *testing.T) {
	testLostAnswers(t, func(t *testing.T, p *pool, r *capi.PoolProvider, name string) (begin, end func() (cloud.State, error)) {
		spec := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: version}, Name: name, To: p.imageID(version)}
		return func() (cloud.State, error) {
			have, err := r.EnsureTrial(t.Context(), spec)
			return have.State, err
		}, func() (cloud.State, error) { return r.EndTrial(t.Context(), spec) }
	})
}

// TestLostAnswersOfWorkshop is TestLostAnswersOfTrial for workshops.
func TestLostAnswersOfWorkshop(t *testing.T) {
	testLostAnswers(t, func(t *testing.T, p *pool, r *capi.PoolProvider, name string) (begin, end func() (cloud.State, error)) {
		spec := cloud.WorkshopSpec{Pool: p.id(), Name: name, Tags: ofOwner}
		return func() (cloud.State, error) {
			have, err := r.EnsureWorkshop(t.Context(), spec)
			return have.State, err
		}, func() (cloud.State, error) { return r.EndWorkshop(t.Context(), spec) }
	})
}

func testLostAnswers(t *testing.T, of func(*testing.T, *pool, *capi.PoolProvider, string) (begin, end func() (cloud.State, error))) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	p.publish(version)
	before, fewest := p.state(), 3 // a separate Machine takes three writes at least
	for n := 0; ; n++ {
		left, lost := n, 0
		r := p.watched(p, func(string) memory.Outcome {
			if left--; left != -1 {
				return memory.Pass()
			}
			lost++
			return memory.FailAfter(cloud.Unavailable)
		})
		begin, end := of(t, p, r, fmt.Sprintf("apart-%d", n))
		until := func(want cloud.State, look func() (cloud.State, error)) {
			t.Helper()
			p.wait("separate Machine that is "+string(want), func() bool {
				state, err := look()
				if err != nil && !cloud.Is(err, cloud.Unavailable) {
					t.Fatal(err)
				}
				return err == nil && state == want
			})
		}
		until(cloud.Complete, begin)
		if machines, built := len(p.list("Machine")), len(p.list("AWSMachine")); machines != 3 || built != 3 {
			t.Errorf("answer %d lost: there are %d Machines of %d instances, want 3", n, machines, built)
		}
		left = n
		until(cloud.Absent, end)
		p.wait("pool as it was", func() bool { return p.state() == before })
		if lost == 0 {
			if n < fewest {
				t.Errorf("only %d answers were lost", n)
			}
			return
		}
	}
}

// TestTrialOfAnotherType: the machine of a trial has the version's image, and the type of the spec instead of the template's.
func TestTrialOfAnotherType(t *testing.T) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	p.publish(version)
	r := p.recipes()
	spec := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: version}, Name: "it", MachineType: "m7i.4xlarge", To: p.imageID(version)}
	if _, err := r.EnsureTrial(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, m := range p.list("Machine") {
		if !annotated(m, "kamino.dev/trial") {
			continue
		}
		tried++
		if built := p.infrastructureOf(&m); text(built, "spec", "instanceType") != spec.MachineType {
			t.Errorf("the machine of the trial is %v", built.Object["spec"])
		}
	}
	if tried != 1 {
		t.Errorf("%d Machines are of trials", tried)
	}
	p.wait("end of the trial", func() bool {
		state, err := r.EndTrial(t.Context(), spec)
		return err == nil && state == cloud.Absent
	})
}
