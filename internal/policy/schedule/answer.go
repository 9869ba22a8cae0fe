package schedule

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Reasons of an answer.
const (
	// Allowed: a capture may begin now.
	Allowed = "Allowed"
	// TooManyFailures: as many captures in a row have failed as the policy allows. A person must act.
	TooManyFailures = "TooManyFailures"
	// BackingOff: the last capture failed within the backoff.
	BackingOff = "BackingOff"
	// TooSoon: the last successful capture began less than minInterval ago.
	TooSoon = "TooSoon"
	// OutsideSchedule: cron does not allow the moment.
	OutsideSchedule = "OutsideSchedule"
	// NeverFires: the schedule allows no moment at all.
	NeverFires = v1alpha1.PolicyScheduleNeverFires
)

// MaxBackoff is the longest backoff. A pool gets one version a day, so that a longer wait would skip days.
const MaxBackoff = 24 * time.Hour

// Answer is the decision whether a capture may begin.
type Answer struct {
	Allowed bool `json:"allowed"`
	// Reason and Message explain the answer. Message has no times, so that it is stable while nothing changes.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Next is when a capture may begin if nothing else happens: now if allowed, zero if a person must act first.
	Next time.Time `json:"next,omitzero"`
}

// PastCaptures has the facts about the pool's captures so far.
type PastCaptures struct {
	// LastSuccess is the creation of the last successful Prototype; zero without any.
	LastSuccess time.Time
	// Failures is the number of failures in a row since LastSuccess. LastFailure is the end of the last failure.
	Failures    int
	LastFailure time.Time
	// Failed is the Prototype of the last failure.
	Failed string
}

// PastOf returns the past of a pool from its Prototypes in any order. Prototypes in progress and failed Prototypes that
// are being deleted are ignored.
func PastOf(prototypes []v1alpha1.Prototype) PastCaptures {
	var past PastCaptures
	for i := range prototypes {
		if p := &prototypes[i]; p.Status.Phase == v1alpha1.PhaseSucceeded && p.CreationTimestamp.After(past.LastSuccess) {
			past.LastSuccess = p.CreationTimestamp.Time
		}
	}
	for i := range prototypes {
		p := &prototypes[i]
		if p.Status.Phase != v1alpha1.PhaseFailed || p.DeletionTimestamp != nil || !p.CreationTimestamp.After(past.LastSuccess) {
			continue
		}
		past.Failures++
		if at := EndedAt(p); past.Failed == "" || at.After(past.LastFailure) {
			past.LastFailure, past.Failed = at, p.Name
		}
	}
	return past
}

// EndedAt returns the end of a capture: the last change of the condition Ready, else the end of the last step, else the
// creation of the Prototype.
func EndedAt(p *v1alpha1.Prototype) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if n := len(p.Status.Steps); n > 0 && p.Status.Steps[n-1].FinishedAt != nil {
		return p.Status.Steps[n-1].FinishedAt.Time
	}
	return p.CreationTimestamp.Time
}

// At decides whether a capture of a pool may begin now. Failures come before the calendar, because a required repair is
// more important than a time to wait for.
func (s *Schedule) At(now time.Time, past PastCaptures, failures v1alpha1.FailureSettings) Answer {
	limit, backoff := limits(failures)
	retry := past.LastFailure.Add(doubled(backoff, past.Failures))
	again := past.LastSuccess.Add(s.minInterval)
	later := func(reason string, from time.Time, format string, args ...any) Answer {
		a := Answer{Reason: reason, Message: fmt.Sprintf(format, args...), Next: s.free(latest(now, from))}
		return a
	}
	switch {
	case past.Failures >= limit:
		return Answer{Reason: TooManyFailures, Message: fmt.Sprintf(
			"%s in a row failed, the last of them prototype %s, and the policy allows %d (failures.limit): "+
				"see `kamino describe %s`. Correct the cause. "+
				"To let the policy continue, delete the failed Prototypes or capture a node by hand", wording.Count(past.Failures, "capture"), past.Failed, limit, past.Failed)}
	case s.free(now).IsZero():
		message, _ := s.Never(now)
		return Answer{Reason: NeverFires, Message: message}
	case past.Failures > 0 && now.Before(retry):
		return later(BackingOff, latest(retry, again),
			"the last capture, prototype %s, has failed, %d in a row: the next capture waits for failures.backoff", past.Failed, past.Failures)
	case !past.LastSuccess.IsZero() && now.Before(again):
		return later(TooSoon, again, "the last capture began less than schedule.minInterval ago")
	}
	if _, black := s.blackedOut(now); black {
		return later(OutsideSchedule, now, "a blackout of the schedule (schedule.blackouts) allows no capture")
	}
	if !s.open(now) {
		return later(OutsideSchedule, now, "the schedule (schedule.cron %s) allows no capture now", s.windows.text)
	}
	return Answer{Allowed: true, Reason: Allowed, Message: "a capture may begin", Next: now}
}

func limits(f v1alpha1.FailureSettings) (limit int, backoff time.Duration) {
	f = v1alpha1.PrototypePolicySpec{Failures: f}.Defaulted().Failures
	return int(f.Limit), f.Backoff.Duration
}

// doubled returns the base, doubled for each failure after the first, up to MaxBackoff or the base if longer.
func doubled(base time.Duration, failures int) time.Duration {
	wait := base
	for range failures - 1 {
		if wait >= MaxBackoff {
			break
		}
		wait = min(2*wait, max(MaxBackoff, base))
	}
	return wait
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
