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

// TestEveryDecisionHasAPhase, because the API server refuses a status without one, and the capture could not go on.
func TestEveryDecisionHasAPhase(t *testing.T) {
	var all []plan.Decision
	for _, a := range plan.Actions {
		if a != plan.Wait {
			all = append(all, plan.Decision{Do: a})
		}
	}
	for why := range waits {
		all = append(all, plan.Decision{Do: plan.Wait, Why: why})
	}
	for _, d := range all {
		for _, copies := range []bool{false, true} {
			w := &pass{p: &v1alpha1.Prototype{Status: v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseCopying}}}
			w.facts.Copy.Wanted, w.facts.Hold.Recorded = copies, true
			w.facts.Failed = d.Do == plan.Fail || d.Do == plan.DeleteImage || d.Do == plan.Close
			if got := phaseOf(w, d); !slices.Contains(v1alpha1.Phases(), got) {
				t.Errorf("%+v, by copy %t: phase %q", d, copies, got)
			}
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
