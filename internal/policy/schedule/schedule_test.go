package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func duration(text string) metav1.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return metav1.Duration{Duration: d}
}

// at parses a time of RFC 3339, or "Mon 02 Jan 15:04" of 2026 in UTC with the day of the week.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	if when, err := time.Parse(time.RFC3339, text); err == nil {
		return when
	}
	when, err := time.Parse("Mon 02 Jan 15:04 2006", text+" 2026")
	if err != nil {
		t.Fatal(err)
	}
	if day := when.Format("Mon"); !strings.HasPrefix(text, day) {
		t.Fatalf("%s is a %s", text, day)
	}
	return when
}

func compiled(t *testing.T, s v1alpha1.ScheduleSettings) *Schedule {
	t.Helper()
	c, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func blackout(start, length string) v1alpha1.Blackout {
	return v1alpha1.Blackout{Start: start, Duration: duration(length)}
}

// TestCalendar tests cron and blackouts only.
func TestCalendar(t *testing.T) {
	nightly := v1alpha1.ScheduleSettings{Cron: "0 2 * * *"}
	weekend := v1alpha1.ScheduleSettings{Cron: "0 2 * * *", Blackouts: []v1alpha1.Blackout{blackout("0 18 * * FRI", "60h")}}
	office := v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{blackout("0 8 * * 1-5", "10h"), blackout("0 17 * * 1-5", "2h")}}
	long := v1alpha1.ScheduleSettings{Cron: "0 22 * * *", Window: duration("30h")}
	for _, c := range []struct {
		name     string
		settings v1alpha1.ScheduleSettings
		now      string
		want     string
		next     string
	}{
		{"no schedule is always", v1alpha1.ScheduleSettings{}, "Mon 12 Jan 12:00", Allowed, "Mon 12 Jan 12:00"},
		{"before the window", nightly, "Mon 12 Jan 01:59", OutsideSchedule, "Mon 12 Jan 02:00"},
		{"at its start", nightly, "Mon 12 Jan 02:00", Allowed, "Mon 12 Jan 02:00"},
		{"in it", nightly, "Mon 12 Jan 03:59", Allowed, "Mon 12 Jan 03:59"},
		{"at its end", nightly, "Mon 12 Jan 04:00", OutsideSchedule, "Tue 13 Jan 02:00"},
		{"a longer window", v1alpha1.ScheduleSettings{Cron: "0 2 * * *", Window: duration("5h")}, "Mon 12 Jan 06:59", Allowed, "Mon 12 Jan 06:59"},
		{"a window over midnight", v1alpha1.ScheduleSettings{Cron: "0 23 * * *", Window: duration("3h")}, "Mon 12 Jan 01:00", Allowed, "Mon 12 Jan 01:00"},
		{"windows that overlap", long, "Mon 12 Jan 12:00", Allowed, "Mon 12 Jan 12:00"},
		{"in New York", v1alpha1.ScheduleSettings{Cron: "0 2 * * *", TimeZone: "America/New_York"}, "Mon 12 Jan 06:59", OutsideSchedule, "Mon 12 Jan 07:00"},
		{"a day of the month or of the week", v1alpha1.ScheduleSettings{Cron: "0 2 13 * SUN"}, "Mon 12 Jan 12:00", OutsideSchedule, "Tue 13 Jan 02:00"},
		{"and the other", v1alpha1.ScheduleSettings{Cron: "0 2 13 * SUN"}, "Wed 14 Jan 12:00", OutsideSchedule, "Sun 18 Jan 02:00"},
		{"a weekend that is kept free", weekend, "Fri 16 Jan 19:00", OutsideSchedule, "Mon 19 Jan 06:00"},
		{"before it", weekend, "Fri 16 Jan 03:00", Allowed, "Fri 16 Jan 03:00"},
		{"overlapping blackouts", office, "Mon 12 Jan 17:30", OutsideSchedule, "Mon 12 Jan 19:00"},
		{"one on the heels of the other", office, "Mon 12 Jan 08:00", OutsideSchedule, "Mon 12 Jan 19:00"},
		{"at the end of a blackout", office, "Mon 12 Jan 19:00", Allowed, "Mon 12 Jan 19:00"},
		{"a blackout in a time zone",
			v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{{Start: "0 0 24 12 *", Duration: duration("72h"), TimeZone: "Asia/Tokyo"}}},
			"Wed 23 Dec 15:00", OutsideSchedule, "Sat 26 Dec 15:00"},
		{"a blackout that cuts a window", v1alpha1.ScheduleSettings{Cron: "0 2 * * *", Blackouts: []v1alpha1.Blackout{blackout("30 2 * * *", "30m")}},
			"Mon 12 Jan 02:45", OutsideSchedule, "Mon 12 Jan 03:00"},
		{"outside, and the next window is cut at its start",
			v1alpha1.ScheduleSettings{Cron: "0 2 * * *", Blackouts: []v1alpha1.Blackout{blackout("0 1 13 * *", "90m")}},
			"Mon 12 Jan 12:00", OutsideSchedule, "Tue 13 Jan 02:30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "a weekend that is kept free" { // the blackout ends on Monday at six, after the window
				c.next = "Tue 20 Jan 02:00"
			}
			got := compiled(t, c.settings).At(at(t, c.now), PastCaptures{}, v1alpha1.FailureSettings{})
			if got.Reason != c.want || got.Allowed != (c.want == Allowed) || got.Message == "" {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if want := at(t, c.next); !got.Next.Equal(want) {
				t.Errorf("next %s, want %s", got.Next, want)
			}
		})
	}
}

// TestClockChanges: in spring, the clock of Berlin skips 02:00 to 03:00. In autumn, the clock repeats 02:00 to 03:00.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct {
		name, zone, cron, after, want string
	}{
		{"a start that is skipped is the change", "Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"the next day as ever", "Europe/Berlin", "30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"the end of what is skipped", "Europe/Berlin", "0 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"a start that comes twice is the first", "Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"and only that", "Europe/Berlin", "30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"an hourly start in between", "Europe/Berlin", "0 * * * *", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},
		{"after what comes twice", "Europe/Berlin", "0 3 * * *", "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z"},
		{"a zone whose day begins at one", "Africa/Cairo", "0 0 * * FRI", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"},
		{"and its morning", "Africa/Cairo", "0 3 * * FRI", "2026-04-23T12:00:00Z", "2026-04-24T00:00:00Z"},
		{"half an hour", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"a day that never was", "Pacific/Apia", "0 12 30 12 *", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"},
		{"an offset in the night before", "America/New_York", "30 1 * * *", "2026-11-01T05:29:00Z", "2026-11-01T05:30:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := compile(c.cron, c.zone, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := r.next(at(t, c.after)), at(t, c.want); !got.Equal(want) {
				t.Errorf("next %s, want %s", got.UTC(), want)
			}
			if _, covered := r.covers(at(t, c.want)); !covered {
				t.Error("the span does not cover its own start")
			}
			if _, covered := r.covers(at(t, c.want).Add(-time.Second)); covered && c.cron != "0 * * * *" {
				t.Error("the span covers the second before its start")
			}
		})
	}
}

// TestSetBack: at the second 02:10, the start of 02:30 is forty minutes old.
func TestSetBack(t *testing.T) {
	r, err := compile("30 2 * * *", "Europe/Berlin", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	end, covered := r.covers(at(t, "2026-10-25T01:10:00Z"))
	if want := at(t, "2026-10-25T01:30:00Z"); !covered || !end.Equal(want) {
		t.Errorf("covered %v until %s, want %s", covered, end.UTC(), want)
	}
}

func TestNever(t *testing.T) {
	now := at(t, "Mon 12 Jan 12:00")
	for _, c := range []struct {
		name     string
		settings v1alpha1.ScheduleSettings
		says     string
		next     string
	}{
		{"30 February", v1alpha1.ScheduleSettings{Cron: "0 0 30 2 *"}, `"0 0 30 2 *" in UTC never matches, because no year has the day`, ""},
		{"31 of short months", v1alpha1.ScheduleSettings{Cron: "0 0 31 2,4,6,9,11 *"}, "no year has the day", ""},
		{"29 February", v1alpha1.ScheduleSettings{Cron: "0 0 29 2 *"}, "", "2028-02-29T00:00:00Z"},
		{"a blackout without end", v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{blackout("0 0 * * *", "24h")}}, "blackouts cover", ""},
		{"blackouts minute by minute", v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{blackout("* * * * *", "1m")}}, "blackouts cover", ""},
		{"a blackout over every window",
			v1alpha1.ScheduleSettings{Cron: "0 2 * * *", Blackouts: []v1alpha1.Blackout{blackout("0 1 * * *", "4h")}}, "blackouts cover", ""},
		{"a blackout on a day that never comes", v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{blackout("0 0 30 2 *", "24h")}}, "",
			"2026-01-12T12:00:00Z"},
		{"a blackout of all but December", v1alpha1.ScheduleSettings{Cron: "0 2 * * *", Blackouts: []v1alpha1.Blackout{blackout("0 0 * 1-11 *", "24h")}},
			"", "2026-12-01T02:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := compiled(t, c.settings)
			message, never := s.Never(now)
			answer := s.At(now, PastCaptures{}, v1alpha1.FailureSettings{})
			if never != (c.says != "") || !strings.Contains(message, c.says) {
				t.Fatalf("never %v: %q, want %q", never, message, c.says)
			}
			if never {
				if answer.Reason != NeverFires || answer.Message != message || !answer.Next.IsZero() || answer.Allowed {
					t.Errorf("%+v", answer)
				}
				return
			}
			if want := at(t, c.next); !answer.Next.Equal(want) {
				t.Errorf("next %s, want %s", answer.Next, want)
			}
		})
	}
	// 2100 is no leap year, and the search of the parser ends after five years.
	leap := compiled(t, v1alpha1.ScheduleSettings{Cron: "0 0 29 2 *"})
	if got, want := leap.windows.next(at(t, "2097-01-01T00:00:00Z")), at(t, "2104-02-29T00:00:00Z"); !got.Equal(want) {
		t.Errorf("the 29 February after 2097 is %s, want %s", got, want)
	}
}

func TestCompileErrors(t *testing.T) {
	for _, c := range []struct {
		settings v1alpha1.ScheduleSettings
		says     []string
	}{
		{v1alpha1.ScheduleSettings{Cron: "61 * * * *"}, []string{"schedule: ", `"61 * * * *"`, "61", "minute, hour"}},
		{v1alpha1.ScheduleSettings{Cron: "0 2 * *"}, []string{"minute, hour"}},
		{v1alpha1.ScheduleSettings{Cron: "0 2 * * * *"}, []string{"minute, hour"}},
		{v1alpha1.ScheduleSettings{Cron: "@daily"}, []string{"minute, hour"}},
		{v1alpha1.ScheduleSettings{Cron: "@every 1h"}, []string{"minute, hour"}},
		{v1alpha1.ScheduleSettings{Cron: "CRON_TZ=UTC 0 2 * * *"}, []string{"use the field timeZone"}},
		{v1alpha1.ScheduleSettings{Cron: "TZ=0"}, []string{"use the field timeZone"}},
		{v1alpha1.ScheduleSettings{Cron: "0 2 * * *", TimeZone: "Mars/Olympus"}, []string{"schedule: ", `"Mars/Olympus"`, "Europe/Berlin"}},
		{v1alpha1.ScheduleSettings{Cron: "0 2 * * *", TimeZone: "Local"}, []string{"Europe/Berlin"}},
		{v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{blackout("0 0 * * *", "1h"), blackout("x", "1h")}},
			[]string{"schedule.blackouts[1]: ", `"x"`}},
	} {
		_, err := Compile(c.settings)
		if err == nil {
			t.Errorf("%+v was taken", c.settings)
			continue
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
	}
}

// TestPast tests earlier failures and the minimum interval.
func TestPast(t *testing.T) {
	weekly := v1alpha1.ScheduleSettings{MinInterval: duration("168h")}
	nightly := v1alpha1.ScheduleSettings{Cron: "0 2 * * *"}
	for _, c := range []struct {
		name     string
		settings v1alpha1.ScheduleSettings
		past     PastCaptures
		failures v1alpha1.FailureSettings
		want     string
		next     string
	}{
		{"a success long ago", weekly, PastCaptures{LastSuccess: at(t, "Mon 05 Jan 12:00")}, v1alpha1.FailureSettings{}, Allowed, "Mon 12 Jan 12:00"},
		{"a success not long ago", weekly, PastCaptures{LastSuccess: at(t, "Mon 05 Jan 12:01")}, v1alpha1.FailureSettings{}, TooSoon, "Mon 12 Jan 12:01"},
		{"no interval", nightly, PastCaptures{LastSuccess: at(t, "Mon 12 Jan 11:00")}, v1alpha1.FailureSettings{}, OutsideSchedule, "Tue 13 Jan 02:00"},
		{"one failure", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 1, LastFailure: at(t, "Mon 12 Jan 11:01"), Failed: "p"},
			v1alpha1.FailureSettings{}, BackingOff, "Mon 12 Jan 12:01"},
		{"one failure an hour ago", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 1, LastFailure: at(t, "Mon 12 Jan 11:00"), Failed: "p"},
			v1alpha1.FailureSettings{}, Allowed, "Mon 12 Jan 12:00"},
		{"two failures", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 2, LastFailure: at(t, "Mon 12 Jan 11:00"), Failed: "p"},
			v1alpha1.FailureSettings{}, BackingOff, "Mon 12 Jan 13:00"},
		{"the window is over by then", nightly, PastCaptures{Failures: 2, LastFailure: at(t, "Mon 12 Jan 11:00"), Failed: "p"},
			v1alpha1.FailureSettings{}, BackingOff, "Tue 13 Jan 02:00"},
		{"three failures", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 3, LastFailure: at(t, "Mon 05 Jan 11:00"), Failed: "p"},
			v1alpha1.FailureSettings{}, TooManyFailures, ""},
		{"a higher limit", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 9, LastFailure: at(t, "Mon 12 Jan 11:00"), Failed: "p"},
			v1alpha1.FailureSettings{Limit: 10}, BackingOff, "Tue 13 Jan 11:00"},
		{"no back-off", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 2, LastFailure: at(t, "Mon 12 Jan 12:00"), Failed: "p"},
			v1alpha1.FailureSettings{Backoff: &metav1.Duration{}}, Allowed, "Mon 12 Jan 12:00"},
		{"a back-off of more than a day", v1alpha1.ScheduleSettings{}, PastCaptures{Failures: 2, LastFailure: at(t, "Mon 12 Jan 12:00"), Failed: "p"},
			v1alpha1.FailureSettings{Backoff: new(duration("48h"))}, BackingOff, "Wed 14 Jan 12:00"},
		{"an interval that is longer than the back-off", weekly,
			PastCaptures{Failures: 1, LastFailure: at(t, "Mon 12 Jan 11:30"), Failed: "p", LastSuccess: at(t, "Sat 10 Jan 12:00")},
			v1alpha1.FailureSettings{}, BackingOff, "Sat 17 Jan 12:00"},
		{"too many failures in a blackout", v1alpha1.ScheduleSettings{Blackouts: []v1alpha1.Blackout{blackout("0 0 * * *", "23h")}},
			PastCaptures{Failures: 3, Failed: "p"}, v1alpha1.FailureSettings{}, TooManyFailures, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := compiled(t, c.settings).At(at(t, "Mon 12 Jan 12:00"), c.past, c.failures)
			if got.Reason != c.want || got.Allowed != (c.want == Allowed) {
				t.Errorf("%+v, want %s", got, c.want)
			}
			var next time.Time
			if c.next != "" {
				next = at(t, c.next)
			}
			if !got.Next.Equal(next) {
				t.Errorf("next %s, want %s", got.Next, next)
			}
			if c.past.Failures > 0 && !got.Allowed && !strings.Contains(got.Message, "prototype p") {
				t.Errorf("%q does not name the Prototype that failed", got.Message)
			}
			if c.want == TooManyFailures && !strings.Contains(got.Message, "`kamino describe p`") {
				t.Errorf("%q does not say how to read why", got.Message)
			}
		})
	}
}

func TestPastOf(t *testing.T) {
	prototype := func(name, created string, phase v1alpha1.Phase, change ...func(*v1alpha1.Prototype)) v1alpha1.Prototype {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at(t, created))}}
		p.Status.Phase = phase
		for _, c := range change {
			c(&p)
		}
		return p
	}
	ended := func(when string) func(*v1alpha1.Prototype) {
		return func(p *v1alpha1.Prototype) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled},
				{Type: v1alpha1.ConditionReady, LastTransitionTime: metav1.NewTime(at(t, when))}}
		}
	}
	deleted := func(p *v1alpha1.Prototype) { p.DeletionTimestamp = &metav1.Time{Time: at(t, "Mon 12 Jan 12:00")} }
	const failed, succeeded = v1alpha1.PhaseFailed, v1alpha1.PhaseSucceeded
	old := []v1alpha1.Prototype{prototype("a", "Mon 05 Jan 10:00", failed), prototype("b", "Mon 05 Jan 11:00", succeeded),
		prototype("c", "Tue 06 Jan 10:00", succeeded)}
	for _, c := range []struct {
		name string
		all  []v1alpha1.Prototype
		want PastCaptures
	}{
		{"nothing", nil, PastCaptures{}},
		{"successes", old, PastCaptures{LastSuccess: at(t, "Tue 06 Jan 10:00")}},
		{"successes in another order", []v1alpha1.Prototype{old[2], old[1]}, PastCaptures{LastSuccess: at(t, "Tue 06 Jan 10:00")}},
		{"failures since", append(old, prototype("d", "Wed 07 Jan 10:00", failed, ended("Wed 07 Jan 10:20")),
			prototype("e", "Wed 07 Jan 12:00", failed, ended("Wed 07 Jan 12:05"))),
			PastCaptures{LastSuccess: at(t, "Tue 06 Jan 10:00"), Failures: 2, LastFailure: at(t, "Wed 07 Jan 12:05"), Failed: "e"}},
		{"in another order",
			append([]v1alpha1.Prototype{prototype("e", "Wed 07 Jan 12:00", failed, ended("Wed 07 Jan 12:05")),
				prototype("d", "Wed 07 Jan 10:00", failed)}, old...),
			PastCaptures{LastSuccess: at(t, "Tue 06 Jan 10:00"), Failures: 2, LastFailure: at(t, "Wed 07 Jan 12:05"), Failed: "e"}},
		{"one that runs", []v1alpha1.Prototype{prototype("d", "Wed 07 Jan 10:00", v1alpha1.PhaseDraining)}, PastCaptures{}},
		{"a failure that is deleted", []v1alpha1.Prototype{prototype("d", "Wed 07 Jan 10:00", failed, deleted)}, PastCaptures{}},
		{"a success that is deleted was one", []v1alpha1.Prototype{prototype("d", "Wed 07 Jan 10:00", succeeded, deleted)},
			PastCaptures{LastSuccess: at(t, "Wed 07 Jan 10:00")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, PastOf(c.all)); diff != "" {
				t.Errorf("past (-want +got):\n%s", diff)
			}
		})
	}

	p := prototype("p", "Wed 07 Jan 10:00", failed)
	if got := EndedAt(&p); !got.Equal(at(t, "Wed 07 Jan 10:00")) {
		t.Errorf("without a report it ended at %s", got)
	}
	step := metav1.NewMicroTime(at(t, "Wed 07 Jan 10:30"))
	p.Status.Steps = []v1alpha1.Step{{Phase: failed, FinishedAt: &step}}
	if got := EndedAt(&p); !got.Equal(at(t, "Wed 07 Jan 10:30")) {
		t.Errorf("by its steps it ended at %s", got)
	}
}
