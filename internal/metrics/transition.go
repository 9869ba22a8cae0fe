package metrics

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Results that a capture ends with, the values of label result.
const (
	// Succeeded: the recipe points at the version.
	Succeeded = "succeeded"
	// Failed: it ended after it had begun, and the donor was given back.
	Failed = "failed"
	// Refused: it never took the donor.
	Refused = "refused"
	// Cancelled: its Prototype was deleted.
	Cancelled = "cancelled"
)

// Ending is how a capture ended.
type Ending struct {
	// Result is Succeeded, Failed, Refused or Cancelled.
	Result string
	// Reason of a failure or a refusal, from the closed set of its result or OtherReason; else empty.
	Reason string
}

// StepTime is a step that was left, and how long it lasted.
type StepTime struct {
	Phase v1alpha1.Phase
	Took  time.Duration
}

// Observation is what happened between two looks at one Prototype.
type Observation struct {
	// Ended is nil unless the capture ended.
	Ended *Ending
	// Steps that were left, in order.
	Steps []StepTime
	// Tried is nil unless an attempt at a trial came to something.
	Tried *TrialEnd
	// OutOfService is how long the donor was held; nil unless it was given back.
	OutOfService *time.Duration
}

// TrialEnd is what an attempt at a trial came to.
type TrialEnd struct {
	// Result is trialPassed, trialFailed or trialInconclusive.
	Result string
	// Took is how long the trial has taken, from its first attempt to the verdict; nil if there is none yet.
	Took *time.Duration
}

// Values of label result of what attempts at trials come to.
const (
	trialPassed       = "passed"
	trialFailed       = "failed"
	trialInconclusive = "inconclusive"
)

var trialResults = map[v1alpha1.TrialResult]string{
	v1alpha1.TrialPassed: trialPassed, v1alpha1.TrialFailed: trialFailed, v1alpha1.TrialInconclusive: trialInconclusive,
}

// triedBetween tells what an attempt came to since.
func triedBetween(before, after *v1alpha1.TrialStatus) *TrialEnd {
	if after == nil || trialResults[after.Result] == "" || before != nil && before.Result == after.Result && before.Attempt == after.Attempt {
		return nil
	}
	end := &TrialEnd{Result: trialResults[after.Result]}
	if after.StartedAt != nil && after.FinishedAt != nil {
		took := max(after.FinishedAt.Sub(after.StartedAt.Time), 0)
		end.Took = &took
	}
	return end
}

// Between tells what happened from one status of a Prototype to a later one of the same. What both say is
// no news; neither is what a status that was lost in between said before.
func (r Refusals) Between(before, after *v1alpha1.PrototypeStatus) Observation {
	o := Observation{Steps: stepsLeft(before.Steps, after.Steps), Tried: triedBetween(before.Trial, after.Trial)}
	if after.Terminal() && !before.Terminal() {
		ended := r.endingOf(after)
		o.Ended = &ended
	}
	if released(after.Donor) && !released(before.Donor) {
		took := max(after.Donor.ReleasedAt.Sub(after.Donor.ReservedAt.Time), 0)
		o.OutOfService = &took
	}
	return o
}

func released(d *v1alpha1.DonorStatus) bool {
	return d != nil && d.ReservedAt != nil && d.ReleasedAt != nil
}

// stepsLeft are the steps that are finished now and were not before. Steps are only ever added, so one is
// the same as before if it has its place and its beginning.
func stepsLeft(before, after []v1alpha1.Step) (left []StepTime) {
	for i, step := range after {
		if step.FinishedAt == nil || !inFlightPhases[step.Phase] {
			continue
		}
		if i < len(before) && before[i].FinishedAt != nil && before[i].Phase == step.Phase && before[i].StartedAt.Time.Equal(step.StartedAt.Time) {
			continue
		}
		left = append(left, StepTime{Phase: step.Phase, Took: max(step.FinishedAt.Sub(step.StartedAt.Time), 0)})
	}
	return left
}

// endingOf reads how a capture ended. Whether a donor was ever held parts a failure from a refusal: a promotion may
// be refused, at its write, for a reason that a preflight has too.
func (r Refusals) endingOf(s *v1alpha1.PrototypeStatus) Ending {
	switch {
	case s.Phase == v1alpha1.PhaseSucceeded:
		return Ending{Result: Succeeded}
	case s.Failure == nil:
		return Ending{Result: Cancelled}
	case failureReasons[s.Failure.Reason]:
		return Ending{Failed, s.Failure.Reason}
	case r.set[s.Failure.Reason] && s.Donor != nil:
		return Ending{Failed, s.Failure.Reason}
	case r.set[s.Failure.Reason]:
		return Ending{Refused, s.Failure.Reason}
	case s.Donor == nil:
		return Ending{Refused, OtherReason}
	}
	return Ending{Failed, OtherReason}
}
