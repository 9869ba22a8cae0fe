package capture

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// TestStepsOfEarlierVersionsAreDropped, because the API server refuses a status with an unknown phase.
func TestStepsOfEarlierVersionsAreDropped(t *testing.T) {
	s := v1alpha1.PrototypeStatus{Phase: "Trying", Steps: []v1alpha1.Step{{Phase: v1alpha1.PhasePublishing}, {Phase: "Trying"}}}
	enterPhase(&s, v1alpha1.PhaseRunningTrial, time.Unix(1, 0))
	if len(s.Steps) != 2 || s.Steps[0].Phase != v1alpha1.PhasePublishing || s.Steps[1].Phase != v1alpha1.PhaseRunningTrial {
		t.Errorf("the steps are %+v", s.Steps)
	}
}

func TestEveryActionIsKnown(t *testing.T) {
	for _, a := range plan.Actions {
		if _, known := actions[a]; !known {
			t.Errorf("the engine does not know action %s", a)
		}
	}
}

// TestEveryWaitIsDescribed, because a wait without a text shows an empty progress.
func TestEveryWaitIsDescribed(t *testing.T) {
	reasons := slices.Collect(maps.Keys(waits))
	for _, a := range actions {
		if a.wait != "" {
			reasons = append(reasons, a.wait)
		}
	}
	w := &pass{p: &v1alpha1.Prototype{}, donor: donorObjects{otherHolder: "prototype other"}}
	for _, why := range reasons {
		d := plan.Decision{Do: plan.Wait, Why: why}
		if cmp.Or(trialProgress(w, d), progress(w, d)) == "" {
			t.Errorf("the wait %s has no text", why)
		}
	}
}
