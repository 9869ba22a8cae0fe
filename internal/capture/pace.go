package capture

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// minPause keeps a pass that waits from spinning, minImagePause while an image is made.
	minPause      = 250 * time.Millisecond
	minImagePause = time.Second
	// maxPause while a donor is held, and maxImagePause while an image is made, which takes up to hours.
	maxPause      = 5 * time.Second
	maxImagePause = 20 * time.Second
	// share of what was waited so far that the next pause may add: it bounds what polling costs a donor.
	share      = 0.04
	imageShare = 0.1
	// maxBackOff between passes that end in an error.
	maxBackOff = time.Minute
)

// repeated are the actions that begin something and are decided again until it is done, with the wait
// whose pace they go at.
var repeated = map[plan.Action]plan.Reason{plan.Evict: plan.ForDonor, plan.Publish: plan.ForImage}

// pace says how long to wait before the next look: a small share of how long this step has lasted, so
// that short work is noticed at once and long work is not asked about all the time.
func pace(p *v1alpha1.Prototype, why plan.Reason, now time.Time) time.Duration {
	shortest, longest, part := minPause, maxPause, share
	switch why {
	case plan.ForImage, plan.ForTurn:
		shortest, longest, part = minImagePause, maxImagePause, imageShare
	}
	var waited time.Duration
	if n := len(p.Status.Steps); n > 0 {
		waited = now.Sub(p.Status.Steps[n-1].StartedAt.Time)
	}
	return min(max(time.Duration(part*float64(waited)), shortest), longest)
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
