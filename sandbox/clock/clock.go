// Package clock makes the sandbox's simulated durations short: what takes a cloud three minutes takes a
// sandbox with scale 60 three seconds. Time stamps stay real; only waiting is scaled.
package clock

import (
	"context"
	"time"
)

// Clock scales waiting. The zero value runs in real time.
type Clock struct {
	// Scale is how many simulated seconds pass in a real one; 0 means 1.
	Scale float64
}

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
