package clock

import (
	"sync"
	"time"
)

// Calendar is a simulated time that runs in real time and can skip forward. Recorded skips give every real moment a single
// simulated time. The zero value and nil mean real time. A Calendar is safe for concurrent use.
type Calendar struct {
	mu    sync.RWMutex
	skips []skip
}

// skip is a step forward.
type skip struct {
	real  time.Time
	ahead time.Duration // of the wall's time, from then on
}

// Skip steps forward. The whole second of the skip belongs to the time after the skip: the API server's stamps have
// whole seconds, and an object made right after a skip must not look old.
func (c *Calendar) Skip(by time.Duration) { c.skip(time.Now(), by) }

func (c *Calendar) skip(now time.Time, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := max(by, 0)
	if n := len(c.skips); n > 0 {
		ahead += c.skips[n-1].ahead
	}
	c.skips = append(c.skips, skip{now.Truncate(time.Second), ahead})
}

// Ahead is how far the calendar is ahead of the wall's time now.
func (c *Calendar) Ahead() time.Duration {
	now := time.Now()
	return c.At(now).Sub(now)
}

// At is the simulated time at a real moment, in UTC.
func (c *Calendar) At(real time.Time) time.Time {
	real = real.UTC()
	if c == nil {
		return real
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i := len(c.skips) - 1; i >= 0; i-- {
		if s := c.skips[i]; !real.Before(s.real) {
			return real.Add(s.ahead)
		}
	}
	return real
}
