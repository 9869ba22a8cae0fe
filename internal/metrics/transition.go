package metrics

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Results of captures, the values of label result.
const (
	// Succeeded: the recipe names the version.
	Succeeded = "succeeded"
	// Failed: the capture ended after its begin, and the donor was released.
	Failed = "failed"
	// Refused: the capture never reserved the donor.
	Refused = "refused"
	// Cancelled: a client deleted the Prototype.
	Cancelled = "cancelled"
)

// CaptureEnd is the end of a capture.
type CaptureEnd struct {
	// Result is Succeeded, Failed, Refused or Cancelled.
	Result string
	// Reason of a failure or a refusal, from the closed set of its result or OtherReason; else empty.
	Reason string
}

// StepTime is a finished step with its duration.
type StepTime struct {
	Phase v1alpha1.Phase
	Took  time.Duration
}

// Observation is the difference between two looks at one Prototype.
type Observation struct {
	// Ended is nil unless the capture ended.
	Ended *CaptureEnd
	// Steps are the finished steps, in order.
	Steps []StepTime
	// TrialEnded is nil unless an attempt at a trial ended.
	TrialEnded *TrialEnd
	// OutOfService is the time that the donor was reserved; nil before its release.
	OutOfService *time.Duration
}

// TrialEnd is the result of an attempt at a trial.
type TrialEnd struct {
	// Result is trialPassed, trialFailed or trialInconclusive.
	Result string
	// Took is the time from the first attempt to the verdict; nil before the verdict.
	Took *time.Duration
}

// Values of label result of attempts at trials.
const (
	trialPassed       = "passed"
	trialFailed       = "failed"
	trialInconclusive = "inconclusive"
)

var trialResults = map[v1alpha1.TrialResult]string{
	v1alpha1.TrialPassed: trialPassed, v1alpha1.TrialFailed: trialFailed, v1alpha1.TrialInconclusive: trialInconclusive,
}

// triedBetween returns the result of an attempt since the earlier status.
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

// Between returns the difference between two statuses of a Prototype. Equal parts are no difference, nor are parts that a
// lost status contained before.
func (r Refusals) Between(before, after *v1alpha1.PrototypeStatus) Observation {
	o := Observation{Steps: stepsLeft(before.Steps, after.Steps), TrialEnded: triedBetween(before.Trial, after.Trial)}
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

// stepsLeft are the newly finished steps. Steps are only added, so a step is identified by its place and its begin.
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

// endingOf reads the end of a capture. A capture with a reserved donor failed; a capture without a donor was refused. A
// promotion may be refused at its write for a reason of the preflight.
func (r Refusals) endingOf(s *v1alpha1.PrototypeStatus) CaptureEnd {
	switch {
	case s.Phase == v1alpha1.PhaseSucceeded:
		return CaptureEnd{Result: Succeeded}
	case s.Failure == nil:
		return CaptureEnd{Result: Cancelled}
	case failureReasons[s.Failure.Reason]:
		return CaptureEnd{Failed, s.Failure.Reason}
	case r.set[s.Failure.Reason] && s.Donor != nil:
		return CaptureEnd{Failed, s.Failure.Reason}
	case r.set[s.Failure.Reason]:
		return CaptureEnd{Refused, s.Failure.Reason}
	case s.Donor == nil:
		return CaptureEnd{Refused, OtherReason}
	}
	return CaptureEnd{Failed, OtherReason}
}
