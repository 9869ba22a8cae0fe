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
			if isThrottled := Is(err, Throttled); !gate.leave(isThrottled, wait) || !time.Now().Add(wait).Before(last) {
				return err
			}
		}
	})
}

// recheck is the time between two looks of a read that waits for other reads.
const recheck = 20 * time.Millisecond

// gate holds all reads back until a time. After the first wait, it also limits the reads at a time: half as many after a wait, and one
// more after as many answers. Otherwise most requests of a burst would only be refused.
type gate struct {
	said func(time.Duration)

	mu    sync.Mutex
	until time.Time
	// inside is the number of reads, and width the limit; 0 for no limit.
	inside, width float64
}

// pass waits until the gate is open, or until the context ends.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		wait := time.Until(g.until)
		if wait <= 0 && (g.width == 0 || g.inside+1 <= g.width) {
			g.inside++
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		timer := time.NewTimer(max(wait, recheck))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// leave ends a read. After a throttled read, the gate is closed for a time, and leave returns true.
func (g *gate) leave(isThrottled bool, wait time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !isThrottled {
		if g.inside--; g.width > 0 {
			g.width += 1 / g.width
		}
		return false
	}
	now := time.Now()
	if !g.until.After(now) {
		g.said(wait)
		g.width = max(1, min(g.inside, parallel)/2)
	}
	g.inside--
	if until := now.Add(wait); until.After(g.until) {
		g.until = until
	}
	return true
}
