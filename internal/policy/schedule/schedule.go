// Package schedule decides when a capture of a pool may begin: by a policy's cron and blackouts, the time since the
// last capture, and the failures. Package selection chooses the node. A capture that has begun continues regardless of
// the schedule.
//
// The package keeps no state: the answer depends on the time and on the pool's Prototypes. A process that missed the
// start of a window begins late, and a restarted process begins no capture twice.
package schedule

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Schedule is the compiled schedule of a policy. Schedule is safe for concurrent use.
type Schedule struct {
	windows     *recurrence // nil: at any time
	blackouts   []recurrence
	minInterval time.Duration
}

// Compile compiles a schedule. The error names the invalid field and shows a valid example.
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

// The search for an allowed moment ends after so many blackouts and windows, and so many years. The limits cover two
// weeks of minute-long blackouts, and every leap year.
const (
	steps = 20_000
	years = 10
)

// free returns the first moment from t on that cron and blackouts allow; zero if none was found.
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

// open reports whether cron allows t.
func (s *Schedule) open(t time.Time) bool {
	if s.windows == nil {
		return true
	}
	_, covered := s.windows.covers(t)
	return covered
}

// blackedOut reports whether t is in a blackout, and the latest end of all such blackouts.
func (s *Schedule) blackedOut(t time.Time) (end time.Time, black bool) {
	for i := range s.blackouts {
		if until, covered := s.blackouts[i].covers(t); covered && until.After(end) {
			end, black = until, true
		}
	}
	return end, black
}

// Never reports whether no capture can begin from now on, and why: cron names a day that does not exist, or blackouts
// cover all windows within the limits of the search.
func (s *Schedule) Never(now time.Time) (message string, never bool) {
	switch {
	case s.windows != nil && s.windows.next(now).IsZero() && !s.open(now):
		return fmt.Sprintf("schedule.cron %s never matches, because no year has the day: correct the field, or omit the field to allow any time",
			s.windows.text), true
	case s.free(now).IsZero():
		return "schedule.blackouts cover every time of schedule.cron: shorten the blackouts, or make schedule.window longer", true
	}
	return "", false
}
