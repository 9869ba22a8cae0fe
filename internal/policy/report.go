package policy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
)

// report fills the pool's status, except the decision.
func (o *PoolOutcome) report(prototypes []v1alpha1.Prototype, subject selection.PoolState) {
	s := &o.Status
	s.Name, s.ID = o.Pool.Name, string(o.Pool.ID)
	s.CurrentVersion = o.Look.Pool.Recipe.Version
	s.ImageBuiltAt = timestamp(builtAt(o.Look))
	s.NewestPatch = timestamp(o.Choice.NewestPatch)
	s.Nodes, s.Candidates = int32(len(subject.Nodes)), int32(len(o.Choice.Candidates))
	s.Refusals = o.Choice.Refusals
	if o.Choice.Donor != nil {
		s.Donor = o.Choice.Donor.Name
	}
	s.Failures = int32(schedule.PastOf(prototypes).Failures)
	for i := range prototypes {
		if p := &prototypes[i]; p.Name == subject.InFlight {
			s.Prototype, s.Donor = p.Name, p.Spec.Donor.NodeName
		}
	}
	s.LastResult = lastResult(prototypes)
}

// lastResult is the result of the newest ended capture.
func lastResult(prototypes []v1alpha1.Prototype) *v1alpha1.CaptureResult {
	var last *v1alpha1.Prototype
	for i := range prototypes {
		p := &prototypes[i]
		if p.Status.Terminal() && (last == nil || younger(p, last)) {
			last = p
		}
	}
	if last == nil {
		return nil
	}
	result := &v1alpha1.CaptureResult{Prototype: last.Name, Version: last.Spec.Version, Result: last.Status.Phase, At: timestamp(schedule.EndedAt(last))}
	if f := last.Status.Failure; f != nil {
		result.Message = f.Reason + ": " + f.Message
	}
	return result
}

func younger(a, b *v1alpha1.Prototype) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c > 0
	}
	return a.Name > b.Name
}

// timestamp is a time in the precision of the API server, whole seconds, so that equal statuses compare equal. Nil for the zero
// time.
func timestamp(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	t := metav1.NewTime(at.UTC().Truncate(time.Second))
	return &t
}
