package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestFreeIsTheFirst: no minute before the returned time is allowed, and the returned time is.
func TestFreeIsTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := v1alpha1.ScheduleSettings{
			Cron:     rapid.SampledFrom([]string{"", "0 2 * * *", "30 */6 * * *", "15 23 * * SAT"}).Draw(t, "cron"),
			TimeZone: rapid.SampledFrom([]string{"", "Europe/Berlin", "Asia/Kathmandu"}).Draw(t, "zone"),
			Window:   duration(rapid.SampledFrom([]string{"45m", "3h"}).Draw(t, "window")),
		}
		for range rapid.IntRange(0, 2).Draw(t, "blackouts") {
			settings.Blackouts = append(settings.Blackouts, blackout(rapid.SampledFrom([]string{"0 1 * * *", "0 0 * * SAT"}).Draw(t, "start"), "40m"))
		}
		s, err := Compile(settings)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Unix(rapid.Int64Range(1_790_000_000, 1_830_000_000).Draw(t, "from")/60*60, 0).UTC()
		first := s.free(from)
		if first.IsZero() {
			t.Fatal("there is none")
		}
		allowed := func(at time.Time) bool {
			_, black := s.blackedOut(at)
			return s.open(at) && !black
		}
		if !allowed(first) || first.Before(from) {
			t.Fatalf("%s is named, and is not allowed from %s on", first, from)
		}
		for at := from; at.Before(first); at = at.Add(time.Minute) {
			if allowed(at) {
				t.Fatalf("%s is allowed, and %s is named", at, first)
			}
		}
	})
}
