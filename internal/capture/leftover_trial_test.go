package capture

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// abandoned is a stage with an open trial whose Prototype and record are gone.
func abandoned(t *testing.T) (v *trialEnv, before memory.World) {
	t.Helper()
	v = published(t)
	before = v.cloud.World()
	v.abandon()
	return v, before
}

// abandon begins a trial without a Prototype.
func (v *trialEnv) abandon() cloud.TrialSpec {
	v.t.Helper()
	spec := cloud.TrialSpec{
		ImageRef: cloud.ImageRef{Pool: v.pool, Version: triedVersion}, Name: "gone-trial-3", RemoveBootstrap: true,
		Tags: map[string]string{cloud.TagPrototype: "gone", cloud.TagUID: "gone", cloud.TagCluster: ourCluster},
	}
	_, err := v.cloud.EnsureTrial(v.t.Context(), spec)
	v.must(err)
	return spec
}

// TestOrphanedTrialIsEnded: whichever call of the sweeps is lost, and however, the pool comes to be as it was.
func TestOrphanedTrialIsEnded(t *testing.T) {
	memory.Courses{Losses: losses, Least: 20, Play: func(t *testing.T, schedule *memory.Schedule) {
		v, before := abandoned(t)
		v.schedule = schedule
		for range 12 {
			memory.RunUntilCrash(func() { _, _ = v.engine.SweepLeftovers(t.Context(), []cloud.PoolID{v.pool}) })
			v.clock.Advance(20 * time.Second)
		}
		w := v.cloud.World()
		if diff := cmp.Diff(before.Pools, w.Pools); diff != "" || len(w.Trials) > 0 || len(w.Instances) != len(before.Instances) {
			t.Errorf("trials %+v, instances %+v\n%s", w.Trials, w.Instances, diff)
		}
	}}.LoseEach(t)
}

// TestOwnedTrialStays: trials of an active Prototype, and trials without a UID.
func TestOwnedTrialStays(t *testing.T) {
	v, _ := abandoned(t)
	want := []reservations.Leftover{{Kind: reservations.Trial, Name: "gone-trial-3", Prototype: "gone", UID: "gone"}}
	left, err := v.engine.Leftovers(t.Context(), []cloud.PoolID{v.pool}, nil)
	v.must(err)
	if diff := cmp.Diff(want, left, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if left, err = v.engine.Leftovers(t.Context(), nil, nil); err != nil || len(left) > 0 {
		t.Errorf("without pools the cloud is asked: %+v, %v", left, err)
	}
	for name, own := range map[string]func(v *trialEnv, tags map[string]string){
		"another owner's":  func(v *trialEnv, tags map[string]string) { tags[cloud.TagUID] = string(v.prototype().UID) },
		"without an owner": func(_ *trialEnv, tags map[string]string) { delete(tags, cloud.TagUID) },
	} {
		v := published(t)
		spec := v.abandon()
		_, err := v.cloud.EndTrial(t.Context(), spec)
		v.must(err)
		v.clock.Advance(time.Minute)
		own(v, spec.Tags)
		_, err = v.cloud.EnsureTrial(t.Context(), spec)
		v.must(err)
		before := v.cloud.World().Trials
		for range 3 {
			left, err := v.engine.SweepLeftovers(t.Context(), []cloud.PoolID{v.pool})
			if v.must(err); len(left) > 0 {
				t.Errorf("%s was swept up: %+v", name, left)
			}
		}
		if diff := cmp.Diff(before, v.cloud.World().Trials); diff != "" || len(before) != 1 {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestAnAttemptThatTheRecordLost: a client removes the record of the third attempt, and the capture begins
// with the first attempt again. The capture ends the lost attempt, and succeeds.
func TestAnAttemptThatTheRecordLost(t *testing.T) {
	v := published(t)
	spec := v.abandon()
	v.must(func() error { _, err := v.cloud.EndTrial(t.Context(), spec); return err }())
	v.clock.Advance(time.Minute)
	spec.Name, spec.Tags[cloud.TagUID] = trialName(v.prototype(), 3), string(v.prototype().UID)
	v.must(func() error { _, err := v.cloud.EnsureTrial(t.Context(), spec); return err }())
	built := v.cloud.World().Trials[0].Instances[0]
	p := v.run()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	v.nothingLeft(p)
	if v.cloud.World().Instance(built).ID != "" {
		t.Errorf("the instance of the attempt that was lost is there: %+v", v.cloud.World().Instances)
	}
}
