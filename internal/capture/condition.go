package capture

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// setCondition sets a condition; a new status gets the time now.
func setCondition(p *v1alpha1.Prototype, now time.Time, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// enterPhase begins a phase, unless the capture is already in that phase.
func enterPhase(s *v1alpha1.PrototypeStatus, phase v1alpha1.Phase, now time.Time) {
	if s.Phase == phase {
		return
	}
	at := metav1.NewMicroTime(now)
	if n := len(s.Steps); n > 0 && s.Steps[n-1].FinishedAt == nil {
		s.Steps[n-1].FinishedAt = &at
	}
	s.Phase = phase
	// The API server refuses a status with phases of earlier versions.
	s.Steps = slices.DeleteFunc(s.Steps, func(step v1alpha1.Step) bool { return !slices.Contains(v1alpha1.Phases(), step.Phase) })
	if !s.Terminal() {
		s.Steps = append(s.Steps, v1alpha1.Step{Phase: phase, StartedAt: at})
	}
}
