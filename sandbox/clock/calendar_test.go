package clock

import (
	"testing"
	"time"
)

var wall = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func TestNoCalendarIsRealTime(t *testing.T) {
	for name, c := range map[string]Clock{"no calendar": {}, "one that was never put forward": {Calendar: &Calendar{}}} {
		if got := c.At(wall); !got.Equal(wall) {
			t.Errorf("%s: %s, want %s", name, got, wall)
		}
	}
	west := wall.In(time.FixedZone("west", -3600))
	if got := (Clock{}).At(west); got.Location() != time.UTC {
		t.Errorf("the time is shown in %s", got.Location())
	}
}

func TestCalendarIsMonotonic(t *testing.T) {
	c := &Calendar{}
	c.skip(wall.Add(10*time.Second+700*time.Millisecond), 8*time.Hour)
	c.skip(wall.Add(20*time.Second), time.Hour)
	c.skip(wall.Add(30*time.Second), -time.Hour) // time never goes back
	for after, ahead := range map[time.Duration]time.Duration{
		0:                                0,
		9 * time.Second:                  0,
		10 * time.Second:                 8 * time.Hour, // a stamp in whole seconds, from after the skip
		19*time.Second + time.Second - 1: 8 * time.Hour,
		20 * time.Second:                 9 * time.Hour,
		time.Minute:                      9 * time.Hour,
	} {
		real := wall.Add(after)
		if got := c.At(real).Sub(real); got != ahead {
			t.Errorf("%s after: ahead by %s, want %s", after, got, ahead)
		}
	}
}

func TestSkipIsVisibleAtOnce(t *testing.T) {
	calendar := &Calendar{}
	clock := Clock{Calendar: calendar}
	before := clock.Now()
	calendar.Skip(24 * time.Hour)
	if passed := clock.Now().Sub(before); passed < 24*time.Hour {
		t.Errorf("%s have passed, want a day at least", passed)
	}
	if ahead := calendar.Ahead(); ahead != 24*time.Hour {
		t.Errorf("ahead by %s, want a day", ahead)
	}
}
