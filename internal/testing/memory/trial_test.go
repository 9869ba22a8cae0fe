package memory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const tried = "2026.11.21"

// newTrialRig returns a cloud with a version, and the spec of a trial.
func newTrialRig(t *testing.T) (*rig, cloud.TrialSpec) {
	t.Helper()
	r := newRig(t)
	r.AddVersion(r.pool, memory.VersionSpec{Version: tried})
	return r, cloud.TrialSpec{
		ImageRef: cloud.ImageRef{Pool: r.pool, Version: tried}, Name: "uid-1", RemoveBootstrap: true, Tags: map[string]string{cloud.TagUID: "uid"},
	}
}

func (r *rig) trial(t *testing.T, spec cloud.TrialSpec) cloud.Trial {
	t.Helper()
	trial, err := r.Trial(t.Context(), spec)
	must(t, err)
	return trial
}

func TestSeparateTrialKeepsPool(t *testing.T) {
	r, spec := newTrialRig(t)
	before := r.World().Pools
	trial, err := r.EnsureTrial(t.Context(), spec)
	must(t, err)
	if trial.State != cloud.Pending || len(trial.Instances) != 1 {
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

func TestFailedTrial(t *testing.T) {
	r, spec := newTrialRig(t)
	r.SetQuota(memory.Quota{Instances: 2})
	if found, err := r.PreflightTrial(t.Context(), spec); err != nil || len(found) != 1 || found[0].Reason != memory.ReasonQuotaExceeded {
		t.Errorf("preflight finds %+v, %v", found, err)
	}
	if _, err := r.EnsureTrial(t.Context(), spec); !cloud.Is(err, cloud.QuotaExceeded) || r.trial(t, spec).State != cloud.Absent {
		t.Errorf("without room: %v", err)
	}
	r.SetQuota(memory.Quota{})
	for _, lacksCapacity := range []bool{true, false} {
		r.FailTrials(1, memory.TrialFailure{Trouble: "no", LacksCapacity: lacksCapacity, BlamesImage: !lacksCapacity})
		_, err := r.EnsureTrial(t.Context(), spec)
		must(t, err)
		r.clock.Advance(latency.Start)
		if trial := r.trial(t, spec); trial.State != cloud.Failed || trial.LacksCapacity != lacksCapacity ||
			trial.BlamesImage == lacksCapacity || trial.Trouble != "no" {
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
	if w := r.World(); len(w.Trials) != 0 || w.Pools[0].Capacity != 2 || len(w.Instances) != 2 {
		t.Errorf("left: %+v", w)
	}
}
