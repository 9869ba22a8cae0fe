package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// zones are time zones with days of clock changes: one hour forward and back, at midnight, half an hour, and no change.
var zones = []struct {
	name string
	from time.Time
}{
	{"UTC", time.Date(2026, 2, 26, 0, 0, 0, 0, time.UTC)},
	{"Europe/Berlin", time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)},
	{"America/New_York", time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)},
	{"Africa/Cairo", time.Date(2026, 4, 22, 0, 0, 0, 0, time.UTC)},
	{"Africa/Cairo", time.Date(2026, 10, 27, 0, 0, 0, 0, time.UTC)},
	{"Australia/Lord_Howe", time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)},
	{"America/Sao_Paulo", time.Date(2018, 11, 2, 0, 0, 0, 0, time.UTC)},
	{"America/Sao_Paulo", time.Date(2018, 2, 15, 0, 0, 0, 0, time.UTC)},
	{"Pacific/Apia", time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC)},
}

const span = 4 * 24 * 60 // minutes of a test

// watched returns the starts that a reader of a wall clock sees, minute by minute.
func watched(r *recurrence, from time.Time, minutes int) map[time.Time]bool {
	starts, shown := map[time.Time]bool{}, map[time.Time]bool{}
	wall := func(t time.Time) time.Time {
		t = t.In(r.zone)
		return dayOf(t).Add(time.Duration(t.Hour()*60+t.Minute()) * time.Minute)
	}
	fits := func(w time.Time) bool { return r.on(dayOf(w)) && r.at(w.Hour()*60+w.Minute()) }
	before := wall(from.Add(-6 * time.Hour))
	for t := from.Add(-6*time.Hour + time.Minute); t.Before(from.Add(time.Duration(minutes) * time.Minute)); t = t.Add(time.Minute) {
		w := wall(t)
		skipped := before.Add(time.Minute)
		for ; skipped.Before(w); skipped = skipped.Add(time.Minute) {
			starts[t] = starts[t] || fits(skipped)
		}
		if !shown[w] {
			shown[w] = true
			starts[t] = starts[t] || fits(w)
		}
		before = w
	}
	return starts
}

func drawCron(t *rapid.T, day time.Time) string {
	field := func(name string, options ...string) string { return rapid.SampledFrom(options).Draw(t, name) }
	week := strings.ToUpper(day.AddDate(0, 0, rapid.IntRange(0, 3).Draw(t, "weekday")).Format("Mon"))
	date := fmt.Sprint(day.AddDate(0, 0, rapid.IntRange(0, 3).Draw(t, "date")).Day())
	return strings.Join([]string{
		field("minute", "0", "30", "15,45", "*/20", "59"), field("hour", "*", "0", "1", "2", "3", "23", "0-4", "*/6"),
		field("dom", "*", "*", date), field("month", "*", fmt.Sprint(int(day.Month()))), field("dow", "*", "*", week),
	}, " ")
}

// TestAgainstAClock compares the computed starts with those of watched.
func TestAgainstAClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.SampledFrom(zones).Draw(t, "zone")
		text := drawCron(t, z.from)
		length := time.Duration(rapid.IntRange(1, 300).Draw(t, "length")) * time.Minute
		r, err := compile(text, z.name, length)
		if err != nil {
			t.Fatal(err)
		}
		starts := watched(&r, z.from, span)
		now := z.from.Add(24 * time.Hour).Add(time.Duration(rapid.IntRange(0, 2*24*60*60).Draw(t, "second")) * time.Second)

		var next, last time.Time
		for start, is := range starts {
			if is && start.After(now) && (next.IsZero() || start.Before(next)) {
				next = start
			}
			if is && !start.After(now) && start.After(last) {
				last = start
			}
		}
		if got := r.next(now); !next.IsZero() && !got.Equal(next) {
			t.Fatalf("%s: after %s comes %s, and the clock shows %s", r.text, now.In(r.zone), got.In(r.zone), next.In(r.zone))
		}
		want := !last.IsZero() && last.Add(length).After(now)
		if end, got := r.covers(now); got != want || got && !end.Equal(last.Add(length)) {
			t.Fatalf("%s for %s: covers %s: %v until %s; the last start is %s", r.text, length, now.In(r.zone), got, end.In(r.zone), last.In(r.zone))
		}
	})
}

// TestNextIsAllowed: the returned time is allowed, and no earlier time is.
func TestNextIsAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.SampledFrom(zones).Draw(t, "zone")
		settings := v1alpha1.ScheduleSettings{MinInterval: hours(t, "interval", 0, 40)}
		if rapid.Bool().Draw(t, "cron") {
			settings.Cron, settings.TimeZone, settings.Window = drawCron(t, z.from), z.name, hours(t, "window", 1, 6)
		}
		for range rapid.IntRange(0, 3).Draw(t, "blackouts") {
			settings.Blackouts = append(settings.Blackouts,
				v1alpha1.Blackout{Start: drawCron(t, z.from), TimeZone: z.name, Duration: hours(t, "blackout", 1, 30)})
		}
		s, err := Compile(settings)
		if err != nil {
			t.Fatal(err)
		}
		now := z.from.Add(24 * time.Hour).Add(time.Duration(rapid.IntRange(0, 24*60).Draw(t, "minute")) * time.Minute)
		past := PastCaptures{Failures: rapid.IntRange(0, 4).Draw(t, "failures"), Failed: "p"}
		past.LastFailure = now.Add(-hours(t, "failed", 0, 30).Duration)
		if rapid.Bool().Draw(t, "succeeded") {
			past.LastSuccess = now.Add(-hours(t, "success", 0, 50).Duration)
		}

		answer := s.At(now, past, v1alpha1.FailureSettings{})
		if answer.Allowed != (answer.Reason == Allowed) || answer.Allowed && !answer.Next.Equal(now) || answer.Message == "" {
			t.Fatalf("%+v", answer)
		}
		if answer.Next.IsZero() != (answer.Reason == TooManyFailures || answer.Reason == NeverFires) {
			t.Fatalf("%+v", answer)
		}
		until := now.Add(24 * time.Hour)
		if !answer.Next.IsZero() {
			if then := s.At(answer.Next, past, v1alpha1.FailureSettings{}); !then.Allowed {
				t.Fatalf("at %s: %+v; and then %+v", now, answer, then)
			}
			if answer.Next.Before(until) {
				until = answer.Next
			}
		}
		step := 47 * time.Minute
		if answer.Reason == NeverFires {
			step = 11 * time.Hour // each answer covers ten years
		}
		for at := now; at.Before(until); at = at.Add(step) {
			if s.At(at, past, v1alpha1.FailureSettings{}).Allowed {
				t.Fatalf("at %s: %+v; and %s is allowed", now, answer, at)
			}
		}
	})
}

func hours(t *rapid.T, name string, least, most int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Hour}
}

// TestBackoffDoubles: each failure waits at least as long as the previous failure, and at most a day.
func TestBackoffDoubles(t *testing.T) {
	before := time.Duration(0)
	for failures := 1; failures < 100; failures++ {
		wait := doubled(time.Hour, failures)
		if wait < before || wait > MaxBackoff || failures < 5 && wait != time.Hour<<(failures-1) {
			t.Fatalf("after %d failures %s, after %s", failures, wait, before)
		}
		before = wait
	}
	if before != MaxBackoff {
		t.Errorf("the longest wait is %s", before)
	}
}

// FuzzCompile: for any input, compile and the search end without a panic.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"0 2 * * *", "*/5 0-23/2 1,15 JAN-mar MON", "@daily", "TZ=", "CRON_TZ=UTC ", "0 0 30 2 *", "60 * * * *", "0-0-0 * * * *", "*/0 * * * *",
		"1-99999999999 * * * *",
	} {
		f.Add(text, "Europe/Berlin", int64(3600))
	}
	now := time.Date(2026, 1, 12, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text, zone string, seconds int64) {
		length := time.Duration(seconds%(400*24*3600)) * time.Second
		s, err := Compile(v1alpha1.ScheduleSettings{Cron: text, TimeZone: zone, Window: metav1.Duration{Duration: length}})
		if err != nil {
			return
		}
		if a := s.At(now, PastCaptures{}, v1alpha1.FailureSettings{}); a.Allowed && !a.Next.Equal(now) {
			t.Errorf("%+v", a)
		}
	})
}
