package capture

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// TestPollsOfAPublication: the poll after the end of a publication is late by at most the time waited, although the wait begins
// before the publication, and percentages stand still.
func TestPollsOfAPublication(t *testing.T) {
	shapes := map[string]func(done, whole time.Duration) int32{
		"steady":      func(done, whole time.Duration) int32 { return int32(99 * done / whole) },
		"slow begin":  func(done, whole time.Duration) int32 { return int32(max(1, 99*(2*done-whole)/whole)) },
		"slow end":    func(done, whole time.Duration) int32 { return int32(min(99, 400*done/whole)) },
		"stays at 1%": func(_, _ time.Duration) int32 { return 1 },
		"without":     func(_, _ time.Duration) int32 { return 0 },
	}
	for name, percent := range shapes {
		for _, whole := range []time.Duration{45 * time.Second, 10 * time.Minute, 30 * time.Minute} {
			begin := 6 * time.Second // of the publication
			at, polls := begin, 0
			for ; at < begin+whole; polls++ {
				at += publishPollInterval.pauseUntil(percent(at-begin, whole), at)
			}
			late, most := at-begin-whole, min(whole, longestKnown)
			if name == "steady" {
				most = whole/10 + publishPollInterval.shortest
			}
			if late > most || polls > 25 {
				t.Errorf("%s of %s: the poll is late by %s, at most %s; %d polls", name, whole, late, most, polls)
			}
		}
	}
}

// TestRepeatedActions: the first repetitions are done at once, then each waits longer. Another decision, or the end of the Prototype, ends the count.
func TestRepeatedActions(t *testing.T) {
	var r retries
	begin, wait := plan.Decision{Do: plan.BeginTrial}, plan.Decision{Do: plan.Wait, Why: plan.ForTrial}
	for range freeRepeats {
		if got := r.repeated("a", begin); got != 0 {
			t.Fatalf("an early repetition waits %s", got)
		}
	}
	last := time.Duration(0)
	for range 6 {
		got := r.repeated("a", begin)
		if got <= last || got > maxBackOff {
			t.Errorf("after %s comes %s", last, got)
		}
		last = got
	}
	for range 20 {
		last = r.repeated("a", begin)
	}
	if last != maxBackOff {
		t.Errorf("the longest delay is %s, want %s", last, maxBackOff)
	}
	if got := r.repeated("b", begin); got != 0 {
		t.Errorf("another Prototype waits %s", got)
	}
	r.repeated("a", wait)
	if got := r.repeated("a", begin); got != 0 {
		t.Errorf("an action behind a wait waits %s", got)
	}
	for range 2 * freeRepeats {
		r.repeated("a", begin)
	}
	r.forget("a")
	if got := r.repeated("a", begin); got != 0 {
		t.Errorf("after the end it waits %s", got)
	}
}
