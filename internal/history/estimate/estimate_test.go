package estimate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history/estimate"
)

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// capture returns a capture with consecutive steps. away is the time without the donor.
func capture(phase v1alpha1.Phase, away time.Duration, steps ...any) v1alpha1.Prototype {
	p := v1alpha1.Prototype{}
	p.Status.Phase = phase
	from, back := metav1.NewMicroTime(noon), metav1.NewMicroTime(noon.Add(away))
	p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &from, ReleasedAt: &back}
	at := noon
	for i := 0; i < len(steps); i += 2 {
		start, end := metav1.NewMicroTime(at), metav1.NewMicroTime(at.Add(steps[i+1].(time.Duration)))
		p.Status.Steps = append(p.Status.Steps, v1alpha1.Step{Phase: steps[i].(v1alpha1.Phase), StartedAt: start, FinishedAt: &end})
		at = end.Time
	}
	return p
}

func TestNothingIsKnownBeforeTheFirstCapture(t *testing.T) {
	failed := capture(v1alpha1.PhaseFailed, time.Minute, v1alpha1.PhaseDraining, time.Minute)
	if got := estimate.Of([]v1alpha1.Prototype{failed, {}}, false); got.Captures != 0 || got.Total() != 0 || got.OutOfService() != 0 {
		t.Errorf("estimate = %+v", got)
	}
}

// TestMediansOfEachStep: one slow replication does not change the median. A step of only some captures has the median
// of these captures.
func TestMediansOfEachStep(t *testing.T) {
	got := estimate.Of([]v1alpha1.Prototype{
		capture(v1alpha1.PhaseSucceeded, 4*time.Minute, v1alpha1.PhaseDraining, time.Minute, v1alpha1.PhasePublishing, 20*time.Minute),
		capture(v1alpha1.PhaseSucceeded, 5*time.Minute, v1alpha1.PhaseDraining, 2*time.Minute, v1alpha1.PhasePublishing, 9*time.Hour),
		capture(v1alpha1.PhaseSucceeded, 6*time.Minute, v1alpha1.PhaseDraining, 3*time.Minute, v1alpha1.PhasePublishing, 22*time.Minute,
			v1alpha1.PhaseRetiring, 10*time.Second),
	}, false)
	want := estimate.Estimate{
		Captures: 3, Seconds: 24*60 + 10, OutOfServiceSeconds: 300,
		Steps: []estimate.Step{
			{Phase: v1alpha1.PhaseDraining, Seconds: 120}, {Phase: v1alpha1.PhasePublishing, Seconds: 22 * 60}, {Phase: v1alpha1.PhaseRetiring, Seconds: 10},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAStepThatWasEnteredTwiceIsAddedUp: a step that ran twice after an error has the sum of both times.
func TestAStepThatWasEnteredTwiceIsAddedUp(t *testing.T) {
	got := estimate.Of([]v1alpha1.Prototype{
		capture(v1alpha1.PhaseSucceeded, time.Minute, v1alpha1.PhaseSnapshotting, 10*time.Second, v1alpha1.PhaseStarting, time.Second,
			v1alpha1.PhaseSnapshotting, 20*time.Second),
		capture(v1alpha1.PhaseSucceeded, 2*time.Minute, v1alpha1.PhaseSnapshotting, 40*time.Second, v1alpha1.PhaseStarting, 3*time.Second),
	}, false)
	if got.Steps[0].Seconds != 35 || got.Steps[1].Seconds != 2 || got.Seconds != 37 || got.OutOfServiceSeconds != 90 {
		t.Errorf("estimate = %+v", got)
	}
}

// TestEachMethodHasItsOwnMedian: captures in place say nothing about captures by copy, whose donors are never out of service.
func TestEachMethodHasItsOwnMedian(t *testing.T) {
	copied := capture(v1alpha1.PhaseSucceeded, 8*time.Minute, v1alpha1.PhasePublishing, 30*time.Minute)
	copied.Spec.Settings.Donor.Method = v1alpha1.MethodCopy
	all := []v1alpha1.Prototype{capture(v1alpha1.PhaseSucceeded, 5*time.Minute, v1alpha1.PhasePublishing, 20*time.Minute), copied}
	if got := estimate.Of(all, false); got.Captures != 1 || got.OutOfService() != 5*time.Minute || got.Workshop() != 0 || got.Total() != 20*time.Minute {
		t.Errorf("in place: %+v", got)
	}
	if got := estimate.Of(all, true); got.Captures != 1 || got.OutOfService() != 0 || got.Workshop() != 8*time.Minute || got.Total() != 30*time.Minute {
		t.Errorf("by copy: %+v", got)
	}
}
