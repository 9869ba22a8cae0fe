package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones must be known in an image that has no files of its own

	"github.com/robfig/cron/v3"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// recurrence is a repeating span [start, start+length) by the wall clock. A start that the clock skips moves to the change; a
// doubled start is the first. The cron library's own search omits skipped times, so only its parser is used.
type recurrence struct {
	text   string // for messages, as written and with its zone
	spec   *cron.SpecSchedule
	zone   *time.Location
	length time.Duration
}

// fields are the five fields of a classic crontab. Words such as @daily are excluded, because they hide the start of
// the day.
const fields = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow

func compile(text, zone string, length time.Duration) (recurrence, error) {
	if zone == "" {
		zone = v1alpha1.DefaultTimeZone
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return recurrence{}, fmt.Errorf("time zone %q does not exist: name a time zone of the IANA database, for example Europe/Berlin", zone)
	}
	// The parser would take a time zone from the text, and panics on an unterminated zone.
	if strings.Contains(text, "=") {
		return recurrence{}, fmt.Errorf("cron %q names a time zone: use the field timeZone", text)
	}
	parsed, err := cron.NewParser(fields).Parse(text)
	if err != nil {
		return recurrence{}, fmt.Errorf("cron %q cannot be read (%w): write minute, hour, day of month, month and day of week, for example \"0 2 * * 1-5\"",
			text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return recurrence{}, fmt.Errorf("cron %q has not the five fields minute, hour, day of month, month and day of week", text)
	}
	return recurrence{text: fmt.Sprintf("%q in %s", text, zone), spec: spec, zone: location, length: length}, nil
}

// horizon is the limit of the search for a start, in days. The next 29 February may be eight years away, for example
// around 2100.
const horizon = 9 * 366

// dayOf returns the calendar day as midnight UTC in any zone, so that clock changes do not affect day counts.
func dayOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// next returns the next start after t; zero if there is none.
func (r *recurrence) next(t time.Time) time.Time {
	day := dayOf(t.In(r.zone))
	for range horizon {
		if r.on(day) {
			if start := r.first(day, t); !start.IsZero() {
				return start
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// covers reports whether t is in a span, and the end of the last span that began by t.
func (r *recurrence) covers(t time.Time) (end time.Time, covered bool) {
	oldest := dayOf(t.Add(-r.length).In(r.zone))
	for day := dayOf(t.In(r.zone)); !day.Before(oldest); day = day.AddDate(0, 0, -1) {
		if !r.on(day) {
			continue
		}
		if start := r.last(day, t); !start.IsZero() {
			end = start.Add(r.length)
			return end, end.After(t)
		}
	}
	return time.Time{}, false
}

// starBit marks a parsed field that begins with a star.
const starBit = 1 << 63

// on reports whether the day has starts. As in any crontab, day of month and day of week are alternatives if both are
// given.
func (r *recurrence) on(day time.Time) bool {
	if !has(r.spec.Month, int(day.Month())) {
		return false
	}
	ofMonth, ofWeek := has(r.spec.Dom, day.Day()), has(r.spec.Dow, int(day.Weekday()))
	if r.spec.Dom&starBit != 0 || r.spec.Dow&starBit != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

func has(set uint64, n int) bool { return set&(1<<uint(n)) != 0 }

const minutes = 24 * 60

// first returns the first start of the day after t; zero if there is none. A wall clock time that was shown earlier
// this day does not start again.
func (r *recurrence) first(day, t time.Time) time.Time {
	minute := 0
	if local := t.In(r.zone); dayOf(local).Equal(day) {
		minute = local.Hour()*60 + local.Minute()
	}
	for ; minute < minutes; minute++ {
		if r.at(minute) {
			if start := moment(day, minute, r.zone); start.After(t) {
				return start
			}
		}
	}
	return time.Time{}
}

// farthest is more than a clock is ever set back within a day: usually one hour, in one zone half an hour, in some two
// hours.
const farthest = 3 * time.Hour

// last returns the last start of the day up to t; zero if there is none. If the clock was set back shortly before t,
// later minutes than now were already shown.
func (r *recurrence) last(day, t time.Time) time.Time {
	minute := minutes - 1
	if local := t.In(r.zone); dayOf(local).Equal(day) {
		now := local.Hour()*60 + local.Minute()
		if change, _ := local.ZoneBounds(); !change.IsZero() && t.Sub(change) < farthest {
			now += int(farthest.Minutes())
		}
		minute = min(minute, now)
	}
	for ; minute >= 0; minute-- {
		if r.at(minute) {
			if start := moment(day, minute, r.zone); !start.After(t) {
				return start
			}
		}
	}
	return time.Time{}
}

func (r *recurrence) at(minute int) bool {
	return has(r.spec.Hour, minute/60) && has(r.spec.Minute, minute%60)
}

// moment returns when the wall clock shows the minute of the day: the first time if twice, the clock change if never.
func moment(day time.Time, minute int, zone *time.Location) time.Time {
	y, m, d := day.Date()
	t := time.Date(y, m, d, minute/60, minute%60, 0, 0, zone)
	start, end := t.ZoneBounds()
	shown := dayOf(t).Add(time.Duration(t.Hour()*60+t.Minute()) * time.Minute)
	wanted := day.Add(time.Duration(minute) * time.Minute)
	switch {
	case shown.After(wanted):
		return start
	case shown.Before(wanted):
		return end
	case start.IsZero():
		return t
	}
	_, before := start.Add(-1).Zone()
	_, now := t.Zone()
	if earlier := t.Add(time.Duration(now-before) * time.Second); earlier.Before(start) && earlier.Before(t) {
		return earlier
	}
	return t
}
