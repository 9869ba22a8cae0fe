// Package schedule decides when a capture of a pool may begin: by a policy's cron and blackouts, by the time
// since the pool's last capture, and by its failures. Which node is captured is package selection's to decide,
// and a capture that has begun is finished whatever the schedule says.
//
// It keeps no state: whether a moment is allowed follows from that moment and from the pool's Prototypes. So a
// process that was away at the start of a window begins late, and one that starts again begins nothing twice.
package schedule

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Schedule of a policy, compiled. Safe for concurrent use.
type Schedule struct {
	windows     *recurrence // nil: at any time
	blackouts   []recurrence
	minInterval time.Duration
}

// Compile a schedule. The error names the field that cannot be read, and what a right one looks like.
func Compile(s v1alpha1.ScheduleSettings) (*Schedule, error) {
	compiled := &Schedule{minInterval: s.MinInterval.Duration}
	if s.Cron != "" {
		window := s.Window.Duration
		if window <= 0 {
			window = v1alpha1.DefaultWindow
		}
		windows, err := compile(s.Cron, s.TimeZone, window)
		if err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
		compiled.windows = &windows
	}
	for i, b := range s.Blackouts {
		blackout, err := compile(b.Start, b.TimeZone, b.Duration.Duration)
		if err != nil {
			return nil, fmt.Errorf("schedule.blackouts[%d]: %w", i, err)
		}
		compiled.blackouts = append(compiled.blackouts, blackout)
	}
	return compiled, nil
}

// The search for an allowed moment ends after so many blackouts and windows, and so many years. Two weeks of
// blackouts that follow each other by the minute are within that, and so is every leap year.
const (
	steps = 20_000
	years = 10
)

// free is the first moment from t on that cron and blackouts allow; zero if none was found.
func (s *Schedule) free(t time.Time) time.Time {
	limit := t.AddDate(years, 0, 0)
	for range steps {
		end, black := s.blackedOut(t)
		switch {
		case black:
			t = end
		case s.open(t):
			return t
		default:
			t = s.windows.next(t)
		}
		if t.IsZero() || t.After(limit) {
			break
		}
	}
	return time.Time{}
}

// open tells whether cron allows t.
func (s *Schedule) open(t time.Time) bool {
	if s.windows == nil {
		return true
	}
	_, covered := s.windows.covers(t)
	return covered
}

// blackedOut tells whether t is in a blackout, and when the one that ends last is over.
func (s *Schedule) blackedOut(t time.Time) (end time.Time, black bool) {
	for i := range s.blackouts {
		if until, covered := s.blackouts[i].covers(t); covered && until.After(end) {
			end, black = until, true
		}
	}
	return end, black
}

// Never tells whether no capture can begin, from now on, and why: cron names a day that does not exist, or
// blackouts cover all that it allows, as far as can be seen.
func (s *Schedule) Never(now time.Time) (message string, never bool) {
	switch {
	case s.windows != nil && s.windows.next(now).IsZero() && !s.open(now):
		return fmt.Sprintf("schedule.cron %s never comes, because no year has such a day: correct it, or leave it out to allow any time", s.windows.text), true
	case s.free(now).IsZero():
		return "schedule.blackouts cover every moment that schedule.cron allows: shorten them, or make schedule.window longer", true
	}
	return "", false
}
