package cloud

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	// patienceTime is how long a read waits for a cloud that throttles, if the context has no deadline.
	patienceTime = 5 * time.Minute
	// firstPause and longestPause limit the pause between two tries if the cloud names no time.
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Patient returns a provider whose reads wait while the cloud throttles, for as long as the cloud asks, until the deadline of the
// context. All reads wait together, because the cloud counts the requests of a credential. said is called with the beginning of each
// wait. Use Patient for callers that only read: a capture has its own pace.
func Patient(provider Provider, said func(wait time.Duration)) Provider {
	gate := &gate{said: said}
	return Intercept(provider, func(ctx context.Context, op Op, call func(context.Context) error) error {
		if op.Writes {
			return call(ctx)
		}
		last := time.Now().Add(patienceTime)
		if deadline, limited := ctx.Deadline(); limited {
			last = deadline
		}
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			if err := gate.pass(ctx); err != nil {
				return err
			}
			err := call(ctx)
			wait := cmp.Or(RetryAfter(err), pause)
			if !Is(err, Throttled) || !time.Now().Add(wait).Before(last) {
				return err
			}
			gate.close(wait)
		}
	})
}

// gate holds all reads back until a time.
type gate struct {
	said func(time.Duration)

	mu    sync.Mutex
	until time.Time
}

// pass waits until the gate is open, or until the context ends.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		wait := time.Until(g.until)
		g.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// close keeps the gate closed for a time.
func (g *gate) close(wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.until.After(now) {
		g.said(wait)
	}
	if until := now.Add(wait); until.After(g.until) {
		g.until = until
	}
}
