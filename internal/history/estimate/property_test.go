package estimate_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history/estimate"
)

// inOrder lists the phases in the order of a capture.
var inOrder = []v1alpha1.Phase{
	v1alpha1.PhasePending, v1alpha1.PhasePreflight, v1alpha1.PhaseReserving,
	v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing,
	v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseWaitingReady, v1alpha1.PhaseReleasing,
	v1alpha1.PhasePublishing, v1alpha1.PhasePromoting, v1alpha1.PhaseRetiring,
}

// TestStepsStandInTheOrderOfACapture for any order of the input. An unknown step of a newer version is the last.
func TestStepsStandInTheOrderOfACapture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var steps []any
		for _, phase := range rapid.Permutation(append([]v1alpha1.Phase{"Trial"}, inOrder...)).Draw(t, "steps") {
			steps = append(steps, phase, time.Second)
		}
		var got []v1alpha1.Phase
		for _, step := range estimate.Of([]v1alpha1.Prototype{capture(v1alpha1.PhaseSucceeded, 0, steps...)}, false).Steps {
			got = append(got, step.Phase)
		}
		if want := append(slices.Clone(inOrder), "Trial"); !slices.Equal(got, want) {
			t.Fatalf("the steps are %v, want %v", got, want)
		}
	})
}

// TestEstimateIsWithinPastDurations: the order of the captures and failed captures do not change the estimate.
func TestEstimateIsWithinPastDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := rapid.SliceOfN(rapid.Int64Range(0, 7200), 1, 9).Draw(t, "seconds")
		var all []v1alpha1.Prototype
		for _, seconds := range took {
			d := time.Duration(seconds) * time.Second
			all = append(all, capture(v1alpha1.PhaseSucceeded, d, v1alpha1.PhasePublishing, d))
		}
		got := estimate.Of(all, false)
		if got.Captures != len(took) || got.Seconds < slices.Min(took) || got.Seconds > slices.Max(took) || got.Seconds != got.OutOfServiceSeconds {
			t.Fatalf("of %v it is %+v", took, got)
		}
		below, above := 0, 0
		for _, seconds := range took {
			if seconds < got.Seconds {
				below++
			}
			if seconds > got.Seconds {
				above++
			}
		}
		if 2*below > len(took) || 2*above > len(took) {
			t.Fatalf("%d of %v are below %d s, %d above", below, took, got.Seconds, above)
		}
		other := append(rapid.Permutation(all).Draw(t, "order"), capture(v1alpha1.PhaseFailed, time.Hour*99, v1alpha1.PhasePublishing, time.Hour*99))
		if again := estimate.Of(other, false); again.Seconds != got.Seconds || again.Captures != got.Captures {
			t.Fatalf("in another order, and with one that failed, it is %+v, not %+v", again, got)
		}
	})
}

// TestUnfinishedStepsAreNotCounted tests a step without an end, a donor that has not returned and a capture without steps.
func TestUnfinishedStepsAreNotCounted(t *testing.T) {
	open := capture(v1alpha1.PhaseSucceeded, time.Hour, v1alpha1.PhaseDraining, time.Minute, v1alpha1.PhasePublishing, time.Hour)
	open.Status.Steps[1].FinishedAt = nil
	open.Status.Donor.ReleasedAt = nil
	bare := capture(v1alpha1.PhaseSucceeded, time.Hour)
	unheld := capture(v1alpha1.PhaseSucceeded, 0, v1alpha1.PhaseDraining, 3*time.Minute)
	unheld.Status.Donor = nil
	unreserved := capture(v1alpha1.PhaseSucceeded, 0, v1alpha1.PhaseDraining, 3*time.Minute)
	unreserved.Status.Donor.ReservedAt = (*metav1.MicroTime)(nil)
	got := estimate.Of([]v1alpha1.Prototype{open, bare, unheld, unreserved}, false)
	if got.Captures != 3 || len(got.Steps) != 1 || got.Total() != 3*time.Minute || got.OutOfService() != 0 {
		t.Errorf("estimate = %+v", got)
	}
}

func TestSecondsAreRounded(t *testing.T) {
	got := estimate.Of([]v1alpha1.Prototype{
		capture(v1alpha1.PhaseSucceeded, 1499*time.Millisecond, v1alpha1.PhaseDraining, 1500*time.Millisecond, v1alpha1.PhaseStopping, 900*time.Millisecond),
	}, false)
	if got.OutOfServiceSeconds != 1 || got.Steps[0].Seconds != 2 || got.Steps[1].Seconds != 1 || got.Seconds != 2 {
		t.Errorf("estimate = %+v: the whole is of the times, not of what they are rounded to", got)
	}
}
