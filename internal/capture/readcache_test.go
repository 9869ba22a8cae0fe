package capture

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TestDecisionsFromCachedReads: all other decisions need new reads.
func TestDecisionsFromCachedReads(t *testing.T) {
	ready := &observed{record: v1alpha1.Record{Trial: &v1alpha1.TrialRecord{Name: "it"}}}
	ready.trial.observation = trial.Observation{Facts: trial.Facts{Ready: true}}
	ending := &observed{record: v1alpha1.Record{Trial: &v1alpha1.TrialRecord{Name: "it", CleaningUp: true}}}
	lost := &observed{record: ending.record}
	lost.trial.lost = &cloud.TrialSpec{}
	waits := func(why plan.Reason) plan.Decision { return plan.Decision{Do: plan.Wait, Why: why} }
	does := func(do plan.Action) plan.Decision { return plan.Decision{Do: do} }
	for name, c := range map[string]struct {
		reads   keptReads
		world   *observed
		suffice []plan.Decision
	}{
		"the version is being made":      {keptReads{after: plan.Publish, snapshot: &cloud.Snapshot{}}, &observed{}, []plan.Decision{does(plan.Publish), waits(plan.ForImage)}},
		"the version is promoted":        {keptReads{after: plan.Promote, image: &cloud.Image{}}, &observed{}, []plan.Decision{does(plan.DeletePod), does(plan.DeleteOrder), does(plan.Succeed), waits(plan.ForDeletion)}},
		"the trial node boots":           {keptReads{after: plan.WatchTrial}, &observed{record: ready.record}, []plan.Decision{does(plan.WatchTrial)}},
		"the trial node is Ready":        {keptReads{after: plan.WatchTrial, isReady: true}, ready, []plan.Decision{does(plan.WatchTrial)}},
		"the trial node was Ready":       {keptReads{after: plan.WatchTrial, isReady: true}, &observed{record: ready.record}, nil},
		"the trial ends":                 {keptReads{after: plan.EndTrial}, ending, []plan.Decision{does(plan.WatchTrial), does(plan.EndTrial)}},
		"a trial is found that was lost": {keptReads{after: plan.EndTrial}, lost, []plan.Decision{does(plan.WatchTrial)}},
	} {
		var all []plan.Decision
		for _, do := range plan.Actions {
			if do != plan.Wait {
				all = append(all, does(do))
			}
		}
		for _, why := range []plan.Reason{plan.ForImage, plan.ForDeletion, plan.ForTrial, plan.ForPromotion, plan.ForSnapshot} {
			all = append(all, waits(why))
		}
		want := map[plan.Decision]bool{}
		for _, d := range c.suffice {
			want[d] = true
		}
		for _, d := range all {
			if got := c.reads.suffice(c.world, d); got != want[d] {
				t.Errorf("%s: %s rests on kept reads: %t", name, d, got)
			}
		}
	}
}

// TestLifeOfTrialObservation: as long as the node is Ready, and for a minute while it boots; never once the trial ends.
func TestLifeOfTrialObservation(t *testing.T) {
	running := metav1.NewTime(noon)
	boots := &v1alpha1.TrialRecord{RunningSince: &running}
	for name, c := range map[string]struct {
		reads  keptReads
		record *v1alpha1.TrialRecord
		after  time.Duration
		want   bool
	}{
		"Ready":           {keptReads{isReady: true}, boots, time.Hour, true},
		"boots":           {keptReads{trial: cloud.Trial{State: cloud.Complete}}, boots, trialLookLife - time.Second, true},
		"boots for long":  {keptReads{trial: cloud.Trial{State: cloud.Complete}}, boots, trialLookLife, false},
		"failed":          {keptReads{trial: cloud.Trial{State: cloud.Failed}}, boots, 0, false},
		"does not run":    {keptReads{trial: cloud.Trial{State: cloud.Pending}}, &v1alpha1.TrialRecord{}, 0, false},
		"Ready, and ends": {keptReads{isReady: true}, &v1alpha1.TrialRecord{RunningSince: &running, CleaningUp: true}, 0, false},
	} {
		c.reads.trialAt = noon
		if got := c.reads.stillHolds(c.record, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: it holds: %t", name, got)
		}
	}
}

// TestAQuarantineInASoakKeepsTheVersionFromBeingUsed, though no pass of the soak reads the version.
func TestAQuarantineInASoakKeepsTheVersionFromBeingUsed(t *testing.T) {
	v := published(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.Soak = &metav1.Duration{Duration: 10 * time.Minute} })
	read, struck := 0, false
	p := v.run(func(int) {
		s := v.prototype().Status
		if s.Trial == nil || s.Trial.Node == "" || s.Failure != nil {
			return
		}
		if !struck {
			struck, read = true, len(v.calls)
			v.must(v.cloud.TagImage(t.Context(), cloud.ImageRef{Pool: v.pool, Version: triedVersion}, map[string]string{cloud.TagQuarantined: "bad"}))
			return
		}
		for _, call := range v.calls[read:] {
			if call == "Image "+triedVersion {
				t.Error("the soak reads the version")
			}
		}
		read = len(v.calls)
	})
	if !struck || p.Status.Failure == nil || p.Status.Failure.Reason != string(plan.Quarantined) {
		t.Errorf("struck: %t; %s", struck, verdict(p))
	}
	v.nothingLeft(p)
}
