package capture

import (
	"testing"
	"time"
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
