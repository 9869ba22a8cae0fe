// Package clock shortens simulated durations: at scale 60, three minutes of a cloud take three seconds. Timestamps
// are real time unless a Calendar has skipped forward. Certificates, tokens, Leases and the API server's timestamps
// always use real time.
package clock

import (
	"context"
	"time"
)

// Clock scales waiting and returns the time. The zero value runs in real time.
type Clock struct {
	// Scale is the number of simulated seconds per real second; 0 means 1.
	Scale float64
	// Calendar is the simulated time; nil means real time.
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
