package memory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

const tried = "2026.11.21"

// newTrialRig returns a cloud with a version, and the spec of a trial for the current state.
func newTrialRig(t *testing.T, inPool bool) (*rig, cloud.TrialSpec) {
	t.Helper()
	r := newRig(t)
	r.AddVersion(r.pool, memory.VersionSpec{Version: tried})
	pool, err := r.Pool(t.Context(), r.pool)
	must(t, err)
	return r, cloud.TrialSpec{
		ImageRef: cloud.ImageRef{Pool: r.pool, Version: tried}, Name: "uid-1", InPool: inPool, RemoveBootstrap: !inPool,
		Image: pool.Recipe.Image, Capacity: pool.Capacity, Tags: map[string]string{cloud.TagUID: "uid"},
	}
}

func (r *rig) trial(t *testing.T, spec cloud.TrialSpec) cloud.Trial {
	t.Helper()
	trial, err := r.Trial(t.Context(), spec)
	must(t, err)
	return trial
}

func TestSeparateTrialKeepsPool(t *testing.T) {
	r, spec := newTrialRig(t, false)
	before := r.World().Pools
	trial, err := r.EnsureTrial(t.Context(), spec)
	must(t, err)
	if trial.State != cloud.Pending || trial.Open || len(trial.Instances) != 1 {
		t.Fatalf("begun, it is %+v", trial)
	}
	r.clock.Advance(latency.Start)
	trial = r.trial(t, spec)
	id := trial.Instances[0].ID
	if m := r.World().Instance(id); trial.State != cloud.Complete || m.BuiltFrom != tried || m.Power != cloud.PowerRunning || m.Bootstrap != nil {
		t.Errorf("it is %+v, and its instance is %+v", trial, m)
	}
	members, err := r.PoolsOf(t.Context(), []cloud.NodeValues{{ProviderID: id}})
	must(t, err)
	if members[0].Pool != "" || members[0].Why == "" || slices.Contains(r.InstanceIDs(r.pool), id) {
		t.Errorf("its instance belongs to %+v", members[0])
	}
	if state, err := r.EndTrial(t.Context(), spec); err != nil || state != cloud.Deleting {
		t.Errorf("ending it: %s, %v", state, err)
	}
	r.clock.Advance(latency.Delete)
	if state, err := r.EndTrial(t.Context(), spec); err != nil || state != cloud.Absent {
		t.Errorf("ended: %s, %v", state, err)
	}
	w := r.World()
	if diff := cmp.Diff(before, w.Pools); diff != "" || len(w.Trials) != 0 || w.Instance(id).ID != "" {
		t.Errorf("left: %+v, the pool (-before +after):\n%s", w.Trials, diff)
	}
}

func TestGrowthDuringTrial(t *testing.T) {
	r, spec := newTrialRig(t, true)
	// A trial in the pool cannot remove the bootstrap, as a promotion does.
	spec.RemoveBootstrap = true
	if _, err := r.EnsureTrial(t.Context(), spec); !cloud.Is(err, cloud.Refused) {
		t.Errorf("in the pool with what the promotion removes: %v", err)
	}
	spec.RemoveBootstrap = false
	trial, err := r.EnsureTrial(t.Context(), spec)
	must(t, err)
	if !trial.Open || trial.State != cloud.Pending || r.World().Pools[0].Recipe.Version != tried {
		t.Fatalf("begun, it is %+v", trial)
	}
	must(t, r.SetCapacity(t.Context(), r.pool, 3, 4)) // an autoscaler, during the trial
	must(t, r.CloseTrial(t.Context(), spec))
	must(t, r.SetCapacity(t.Context(), r.pool, 4, 5)) // an autoscaler, after the close
	r.clock.Advance(latency.Start)
	trial = r.trial(t, spec)
	if trial.State != cloud.Complete || trial.Open || len(trial.Instances) != 2 || trial.Instances[1].BuiltFrom != tried {
		t.Errorf("it is %+v", trial)
	}
	for range 2 {
		if _, err := r.EndTrial(t.Context(), spec); err != nil {
			t.Error(err)
		}
	}
	r.clock.Advance(latency.Delete)
	w := r.World()
	if w.Pools[0].Capacity != 3 || w.Pools[0].Recipe.Image != spec.Image || len(w.Instances) != 3 || len(w.Trials) != 0 {
		t.Errorf("left: %+v", w)
	}
	if _, err := r.EndTrial(t.Context(), spec); err != nil || r.World().Pools[0].Capacity != 3 {
		t.Errorf("ended once more: %v, %+v", err, r.World().Pools)
	}
}

// TestPromotionDuringTrial: after a promotion during the trial, the trial's instances belong to the pool.
func TestPromotionDuringTrial(t *testing.T) {
	r, spec := newTrialRig(t, true)
	_, err := r.EnsureTrial(t.Context(), spec)
	must(t, err)
	must(t, r.CloseTrial(t.Context(), spec))
	r.promote(t, tried, false)
	if state, err := r.EndTrial(t.Context(), spec); err != nil || state != cloud.Absent {
		t.Errorf("ending it: %s, %v", state, err)
	}
	if w := r.World(); len(w.Instances) != 3 || w.Pools[0].Capacity != 3 || w.Pools[0].Recipe.Version != tried {
		t.Errorf("left: %+v", w)
	}
}

func TestFailedTrial(t *testing.T) {
	for name, inPool := range map[string]bool{"apart": false, "in the pool": true} {
		t.Run(name, func(t *testing.T) {
			r, spec := newTrialRig(t, inPool)
			r.SetQuota(memory.Quota{Instances: 2})
			if found, err := r.PreflightTrial(t.Context(), spec); err != nil || len(found) != 1 || found[0].Reason != memory.ReasonQuotaExceeded {
				t.Errorf("preflight finds %+v, %v", found, err)
			}
			if _, err := r.EnsureTrial(t.Context(), spec); !cloud.Is(err, cloud.QuotaExceeded) || r.trial(t, spec).State != cloud.Absent {
				t.Errorf("without room: %v", err)
			}
			r.SetQuota(memory.Quota{})
			for _, noRoom := range []bool{true, false} {
				r.FailTrials(1, "no", noRoom)
				_, err := r.EnsureTrial(t.Context(), spec)
				must(t, err)
				r.clock.Advance(latency.Start)
				if trial := r.trial(t, spec); trial.State != cloud.Failed || trial.NoRoom != noRoom || trial.Blames == noRoom || trial.Trouble != "no" {
					t.Errorf("it is %+v", trial)
				}
				_, err = r.EndTrial(t.Context(), spec)
				must(t, err)
				r.clock.Advance(latency.Delete)
			}
			// A trial whose instance was removed is not built again.
			_, err := r.EnsureTrial(t.Context(), spec)
			must(t, err)
			r.RemoveInstance(r.World().Trials[0].Instances[0])
			if trial, err := r.EnsureTrial(t.Context(), spec); err != nil || trial.State != cloud.Failed || len(trial.Instances) != 0 {
				t.Errorf("it is %+v, %v", trial, err)
			}
			_, err = r.EndTrial(t.Context(), spec)
			must(t, err)
			r.clock.Advance(time.Hour)
			if w := r.World(); len(w.Trials) != 0 || w.Pools[0].Capacity != 2 || len(w.Instances) != 2 || w.Pools[0].Recipe.Image != spec.Image {
				t.Errorf("left: %+v", w)
			}
		})
	}
}
