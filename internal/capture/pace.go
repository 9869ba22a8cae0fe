package capture

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// pollInterval says how often a wait looks: each pause is a share of what was waited so far, between a shortest
// and a longest one. The share bounds what asking in intervals costs: on average half of it.
type pollInterval struct {
	shortest, longest time.Duration
	share             float64
}

var (
	// whileHeld is for a wait that keeps a donor out of service.
	whileHeld = pollInterval{shortest: 750 * time.Millisecond, longest: 5 * time.Second, share: 0.1}
	// booting is for a donor that starts. Whoever drives the capture is told of the node's changes and looks
	// at once then; this is for news that were lost.
	booting = pollInterval{shortest: 2 * time.Second, longest: 20 * time.Second, share: 2}
	// leisurely is for what keeps nobody out of service.
	leisurely = pollInterval{shortest: 2 * time.Second, longest: 20 * time.Second, share: 0.35}
	// whileTried keeps nobody out of service, and takes from a quarter of an hour to two.
	whileTried = pollInterval{shortest: 5 * time.Second, longest: 30 * time.Second, share: 0.3}
	// whileEnding is for what is removed behind a trial, which takes minutes however long the trial was.
	whileEnding = pollInterval{shortest: 5 * time.Second, longest: 20 * time.Second, share: 0.35}
	// awaiting is for a person.
	awaiting = pollInterval{shortest: 5 * time.Second, longest: 2 * time.Minute, share: 0.5}
	// publishing keeps nobody out of service either, and takes from half an hour to two.
	publishing = pollInterval{shortest: 5 * time.Second, longest: 2 * time.Minute, share: 0.5}
	// removing is for the snapshot, whose deletion takes seconds and keeps no node out of service.
	removing = pollInterval{shortest: 5 * time.Second, longest: 20 * time.Second, share: 0.35}
)

// tempos of the waits that are not held ones.
var tempos = map[plan.Reason]pollInterval{
	plan.ForPowerOn: booting, plan.ForReady: booting,
	plan.ForTurn: leisurely, plan.ForNeighbour: leisurely, plan.ForImage: publishing, plan.ForDeletion: removing, plan.ForHolder: leisurely,
	plan.ForTrial: whileTried, plan.ForPromotion: awaiting,
	plan.ForReplacement: leisurely, plan.ForRemoval: leisurely,
}

const (
	// minPause keeps a pass that waits from spinning.
	minPause = 250 * time.Millisecond
	// maxBackOff between passes that end in an error.
	maxBackOff = time.Minute
)

// lasting are the actions that begin what takes a while, with the wait whose pace they go at: nobody needs to look
// right behind them. Some of them are decided again until it is done.
var lasting = map[plan.Action]plan.Reason{
	plan.Evict: plan.ForDonor, plan.Publish: plan.ForImage, plan.TakeSnapshot: plan.ForSnapshot, plan.Start: plan.ForPowerOn,
	plan.WatchTrial: plan.ForTrial, plan.Promote: plan.ForDeletion,
}

// pace says how long to wait before the next look, so that short work is noticed at once and long work is
// not asked about all the time.
func pace(p *v1alpha1.Prototype, why plan.Reason, now time.Time) time.Duration {
	t, found := tempos[why]
	switch {
	case why == plan.ForSnapshot && p.Status.Phase == v1alpha1.PhasePublishing: // behind the donor
		t = publishing
	case !found:
		t = whileHeld
	}
	var waited time.Duration
	if n := len(p.Status.Steps); n > 0 {
		waited = now.Sub(p.Status.Steps[n-1].StartedAt.Time)
	}
	return t.pause(waited)
}

// pause behind a wait that has taken so long.
func (t pollInterval) pause(waited time.Duration) time.Duration {
	return min(max(time.Duration(t.share*float64(waited)), t.shortest), t.longest)
}

// paceBehind an action that begins what takes a while; none where nobody needs to wait. The end of a trial is a wait of its own, whose
// looks do not grow rare with the time that the trial has taken before.
func paceBehind(p *v1alpha1.Prototype, r *v1alpha1.TrialRecord, done plan.Action, now time.Time) time.Duration {
	switch {
	case done == plan.EndTrial && r != nil && r.EndingAt != nil:
		return whileEnding.pause(now.Sub(r.EndingAt.Time))
	case done == plan.EndTrial && r != nil && r.Ending:
		return whileEnding.longest
	}
	if wait, found := lasting[done]; found {
		return pace(p, wait, now)
	}
	return 0
}

// backOff says how long to wait after an error: what the cloud asked for, or twice as long as the last time.
func (e *Engine) backOff(name string, err error) time.Duration {
	count := 0
	if v, found := e.troubles.Load(name); found {
		count, _ = v.(int)
	}
	e.troubles.Store(name, count+1)
	pause := min(minPause<<min(count, 16), maxBackOff)
	return max(pause, cloud.RetryAfter(err))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
