package clock

import (
	"sync"
	"time"
)

// Calendar is a time that goes as fast as the wall's and can be put forward. It remembers when that was done,
// so that every real moment has one simulated time, whoever asks and whenever. The zero value and nil are the
// wall's time. It is safe for concurrent use, and is forgotten with the process.
type Calendar struct {
	mu    sync.RWMutex
	skips []skip
}

// skip is one putting forward.
type skip struct {
	real  time.Time
	ahead time.Duration // of the wall's time, from then on
}

// Skip puts the calendar forward. The whole second in which that happens counts as after it: the API server's
// stamps have no parts of seconds, and what is made right after a skip must not look hours old.
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
