package capture

import (
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// pollInterval is the delay between two passes of a wait: a share of the time waited so far, between two limits. On
// average, the end of a wait is noticed late by half of the share.
type pollInterval struct {
	shortest, longest time.Duration
	share             float64
}

var (
	// reservedPollInterval applies while a donor is out of service.
	reservedPollInterval = pollInterval{shortest: 750 * time.Millisecond, longest: 5 * time.Second, share: 0.1}
	// bootPollInterval applies to a donor that starts. Changes of the node trigger a pass at once; the interval covers
	// lost watch events.
	bootPollInterval = pollInterval{shortest: 5 * time.Second, longest: 20 * time.Second, share: 2}
	// idlePollInterval applies if no node is out of service.
	idlePollInterval = pollInterval{shortest: 2 * time.Second, longest: 20 * time.Second, share: 0.35}
	// trialPollInterval applies to trials, which take 15 minutes to two hours.
	trialPollInterval = pollInterval{shortest: 5 * time.Second, longest: 30 * time.Second, share: 0.3}
	// promotionPollInterval applies to a person's action.
	promotionPollInterval = pollInterval{shortest: 5 * time.Second, longest: 2 * time.Minute, share: 0.5}
	// publishPollInterval applies to the creation of an image version, which takes 30 minutes to two hours.
	publishPollInterval = pollInterval{shortest: 5 * time.Second, longest: 2 * time.Minute, share: 0.5}
	// deletionPollInterval applies to the deletion of the snapshot, which takes seconds, and to the removal of a trial, which
	// takes minutes.
	deletionPollInterval = pollInterval{shortest: 5 * time.Second, longest: 20 * time.Second, share: 0.35}
)

const (
	// minPause is the delay after the first error.
	minPause = 250 * time.Millisecond
	// maxBackOff is the longest delay after an error.
	maxBackOff = time.Minute
)

// pollDelay is the delay before the next pass of a wait: short at first, and longer with the time waited.
func pollDelay(p *v1alpha1.Prototype, why plan.Reason, now time.Time) time.Duration {
	t := waits[why].interval
	switch {
	case why == plan.ForSnapshot && (p.Status.Phase == v1alpha1.PhasePublishing || p.Spec.Settings.CopiesDonor()): // no donor is away
		t = publishPollInterval
	case p.Spec.Settings.CopiesDonor() && t == pollInterval{}:
		t = idlePollInterval
	case p.Status.Phase == v1alpha1.PhaseSoaking:
		t = idlePollInterval
	case t == pollInterval{}:
		t = reservedPollInterval
	}
	var waited time.Duration
	if n := len(p.Status.Steps); n > 0 {
		waited = now.Sub(p.Status.Steps[n-1].StartedAt.Time)
	}
	if image := p.Status.Image; why == plan.ForImage && image != nil {
		return t.pauseUntil(image.ReplicationPercent, waited)
	}
	return t.pause(waited)
}

// longestKnown is the longest delay while the cloud reports a percentage.
const longestKnown = 5 * time.Minute

// pauseUntil is the delay for work of which the cloud reports a percentage: the estimated rest of the time, but at most the time
// waited. The estimate is wrong if a percentage stands still, and early, because the wait began before the work.
func (t pollInterval) pauseUntil(percent int32, waited time.Duration) time.Duration {
	if percent <= 0 || percent >= 100 {
		return t.pause(waited)
	}
	rest := waited / time.Duration(percent) * time.Duration(100-percent)
	return min(max(min(rest, waited), waited/10, t.shortest), longestKnown)
}

// pause is the delay after the time waited.
func (t pollInterval) pause(waited time.Duration) time.Duration {
	return min(max(time.Duration(t.share*float64(waited)), t.shortest), t.longest)
}

// delayAfter is the delay after an action: zero unless its effect takes time. The end of a trial has its own start
// time, so that a long trial does not slow the passes.
func delayAfter(p *v1alpha1.Prototype, r *v1alpha1.TrialRecord, done plan.Action, now time.Time) time.Duration {
	switch {
	case done == plan.EndTrial && r != nil && r.CleanupStartedAt != nil:
		return deletionPollInterval.pause(now.Sub(r.CleanupStartedAt.Time))
	case done == plan.EndTrial && r != nil && r.CleaningUp:
		return deletionPollInterval.longest
	}
	if wait := actions[done].wait; wait != "" {
		return pollDelay(p, wait, now)
	}
	return 0
}

// retries counts the consecutive errors of each Prototype and each orphan, and the equal actions in a row, by a key. It is safe for
// concurrent use.
type retries struct{ errors, actions sync.Map }

// freeRepeats is how many times in a row the same action is done at once. A capture deletes several versions like this.
const freeRepeats = 8

// repeated is the delay after an action that comes again and again, because the world does not show its effect: doubled for each
// repetition. Without it, such a capture sends requests in each moment.
func (r *retries) repeated(key string, d plan.Decision) time.Duration {
	v, _ := r.actions.Load(key)
	row, _ := v.(repeats)
	if row.of != d {
		row = repeats{of: d}
	}
	row.times++
	r.actions.Store(key, row)
	if row.times <= freeRepeats {
		return 0
	}
	return min(minPause<<min(row.times-freeRepeats, 16), maxBackOff)
}

// repeats are equal decisions in a row.
type repeats struct {
	of    plan.Decision
	times int
}

// forget ends the counts of a Prototype that is gone.
func (r *retries) forget(key string) {
	r.errors.Delete(key)
	r.actions.Delete(key)
}

// delay is the delay after an error: doubled for each consecutive error, but at least the cloud's Retry-After.
func (r *retries) delay(key string, err error, now time.Time) time.Duration {
	failing := r.failing(key)
	pause := min(minPause<<min(failing.count, 16), maxBackOff)
	if failing.count++; failing.count == 1 {
		failing.since = now
	}
	r.errors.Store(key, failing)
	return max(pause, cloud.RetryAfter(err))
}

// failing returns the consecutive errors so far.
func (r *retries) failing(key string) (f failing) {
	if v, found := r.errors.Load(key); found {
		f, _ = v.(failing)
	}
	return f
}

// failing are consecutive errors.
type failing struct {
	count int
	since time.Time
}

// reset ends the count after a success.
func (r *retries) reset(key string) { r.errors.Delete(key) }

// wait is a wait of the plan, as the engine polls and reports the wait.
type wait struct {
	// phase of the status; waitPhase has the exceptions. Empty: the phase of the action before.
	phase v1alpha1.Phase
	// interval of the passes; reservedPollInterval if zero.
	interval pollInterval
	// text is the progress of a wait that needs no names.
	text string
}

// waits are the waits with a phase or an interval of their own.
var waits = map[plan.Reason]wait{
	plan.ForTurn:      {phase: v1alpha1.PhasePending, interval: idlePollInterval},
	plan.ForNeighbour: {phase: v1alpha1.PhaseReserving, interval: idlePollInterval},
	plan.ForLook:      {phase: v1alpha1.PhasePreflight, text: "inspecting the node's disk"},
	plan.ForDonor:     {phase: v1alpha1.PhaseDraining, text: "waiting until the donor is Ready"},
	plan.ForProof:     {phase: v1alpha1.PhaseGeneralizing, text: "generalizing"},
	plan.ForPowerOff:  {phase: v1alpha1.PhaseStopping, text: "waiting until the instance is off"},
	plan.ForSnapshot:  {phase: v1alpha1.PhaseSnapshotting, text: "waiting until the snapshot is complete"},
	plan.ForPowerOn:   {phase: v1alpha1.PhaseStarting, interval: bootPollInterval, text: "waiting until the instance runs"},
	plan.ForReady:     {phase: v1alpha1.PhaseWaitingReady, interval: bootPollInterval, text: "waiting until the Node is Ready"},
	plan.ForHolder:    {phase: v1alpha1.PhaseReleasing, interval: idlePollInterval},
	plan.ForImage:     {phase: v1alpha1.PhasePublishing, interval: publishPollInterval},
	plan.ForTrial:     {phase: v1alpha1.PhaseRunningTrial, interval: trialPollInterval, text: "waiting for the next trial"},
	plan.ForPromotion: {phase: v1alpha1.PhaseAwaitingPromotion, interval: promotionPollInterval},
	plan.ForWorkshop:  {phase: v1alpha1.PhaseStartingWorkshop, interval: idlePollInterval, text: "waiting until the workshop is Ready; the donor serves"},
	plan.ForQuiet:     {phase: v1alpha1.PhaseQuiescing, interval: idlePollInterval, text: "waiting until no package is installed and no image is pulled on the donor"},
	plan.ForVolume:    {interval: idlePollInterval, text: "waiting until the cloud has moved the copy of the disk"},
	plan.ForDeletion:  {interval: deletionPollInterval, text: "waiting until the cloud has deleted the leftovers"},
	plan.ForCloud:     {text: "waiting for the cloud, which does not answer"},
}
