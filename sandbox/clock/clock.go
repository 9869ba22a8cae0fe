// Package clock makes the sandbox's simulated durations short: what takes a cloud three minutes takes a
// sandbox with scale 60 three seconds. Time stamps are the wall's unless a Calendar was put ahead of it: then
// whole nights pass at once. What belongs to the machine that the sandbox runs on stays with the wall's time:
// certificates, tokens, Leases and the API server's own stamps.
package clock

import (
	"context"
	"time"
)

// Clock scales waiting and tells the time. The zero value runs in real time.
type Clock struct {
	// Scale is how many simulated seconds pass in a real one; 0 means 1.
	Scale float64
	// Calendar tells what the time is; nil is the wall's.
	Calendar *Calendar
}

// Now is the simulated time, in UTC.
func (c Clock) Now() time.Time { return c.At(time.Now()) }

// At is the simulated time at a real moment, in UTC.
func (c Clock) At(real time.Time) time.Time { return c.Calendar.At(real) }

// Real is how long a simulated duration takes on the wall.
func (c Clock) Real(simulated time.Duration) time.Duration {
	if c.Scale <= 0 {
		return simulated
	}
	return time.Duration(float64(simulated) / c.Scale)
}

// Sleep waits for a simulated duration, or until the context ends.
func (c Clock) Sleep(ctx context.Context, simulated time.Duration) error {
	timer := time.NewTimer(c.Real(simulated))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
