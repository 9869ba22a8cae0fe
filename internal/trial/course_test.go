package trial

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// trialCourse is the course of a trial, in minutes. A minute of never does not occur.
type trialCourse struct {
	runs, registers, ready, falls, returns int
	// every is the period in minutes of a node whose Ready changes; 0 for a stable node.
	every int
	// daemon is the minute at which the DaemonSet is Ready. The pod restarts every restarts minutes, at most most
	// times.
	daemon, restarts, most int
	measured               int
	// differs and agrees are the minutes in which a difference from the pool begins and ends.
	differs, agrees int
	// away and back are the minutes in which the Ready DaemonSet is not Ready; rollout: its pod is of a new template.
	away, back int
	rollout    bool
	network    Result
	twin       bool
}

// fine returns the story of a passed trial.
func fine() trialCourse {
	return trialCourse{runs: 1, registers: 2, ready: 3, falls: never, returns: never, daemon: 4, restarts: never, most: never, measured: 6, network: Passed,
		differs: never, agrees: never, away: never, back: never}
}

const never = 1000

// at returns the facts of a minute.
func (s trialCourse) at(minute int) Facts {
	when := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	f := Facts{Now: when(minute), Begun: noon, Job: Measure{Skipped, "settings.trial.job names no Job"}, Reboot: Reboot{Skipped: "-"}}
	if minute >= s.runs {
		f.Instance.Running = when(s.runs)
	}
	if minute >= s.registers {
		f.Node, f.Registered, f.Changed, f.IdentityKnown = "trial-0", when(s.registers), when(s.registers), true
	}
	for _, turn := range []struct {
		minute int
		ready  bool
	}{{s.ready, true}, {s.falls, false}, {s.returns, true}} {
		if minute >= turn.minute {
			f.WasReady = f.WasReady || turn.ready
			f.Ready, f.Changed = turn.ready, when(turn.minute)
		}
	}
	if s.every > 0 && minute >= s.ready {
		turn := (minute - s.ready) / s.every
		f.Ready, f.Changed = turn%2 == 0, when(s.ready+turn*s.every)
	}
	d := Daemon{Name: "kube-system/cni", Ready: minute >= s.daemon}
	if s.restarts != never {
		d.Restarts = int32(min(max(minute-s.ready, 0)/s.restarts, s.most)) //nolint:gosec // a few
	}
	switch {
	case minute >= s.away && minute < s.back:
		d.Ready, d.Since, d.Rollout = false, when(s.away), s.rollout
	case !d.Ready:
		d.Since = when(s.ready)
	}
	f.Daemons, f.Comparison = []Daemon{d}, &PeerComparison{Others: 3}
	if minute >= s.differs && minute < s.agrees {
		f.Comparison.Differences = []LastingDifference{{Difference{"label/team", "label team is missing"}, when(s.differs)}}
	}
	if minute >= s.measured {
		f.Digest, f.Proven = "sha256:a", "sha256:a"
		f.Network, f.Images = Measure{s.network, "was tried"}, Measure{Passed, "started without a pull"}
	}
	if s.twin && minute >= s.registers {
		f.Twins = []string{"w-1"}
	}
	return f
}

// stories lists the results with the minutes of the result.
var stories = map[string]struct {
	change          func(*trialCourse)
	result          Result
	earliest, atAll int
}{
	"good":                       {func(*trialCourse) {}, Passed, 13, 13},
	"slow":                       {func(s *trialCourse) { s.runs, s.registers, s.ready, s.daemon, s.measured = 9, 15, 22, 30, 26 }, Passed, 32, 32},
	"the cloud has none":         {func(s *trialCourse) { s.runs, s.registers, s.ready = never, never, never }, Inconclusive, 11, 11},
	"never registers":            {func(s *trialCourse) { s.registers, s.ready = never, never }, Failed, 12, 12},
	"never Ready":                {func(s *trialCourse) { s.ready = never }, Failed, 13, 13},
	"Ready, then not":            {func(s *trialCourse) { s.falls = 9 }, Failed, 12, 12},
	"away and back":              {func(s *trialCourse) { s.falls, s.returns = 9, 10 }, Passed, 20, 20},
	"now and then":               {func(s *trialCourse) { s.every = 1 }, Failed, 40, 45},
	"a DaemonSet never comes":    {func(s *trialCourse) { s.daemon = never }, Failed, 14, 14},
	"a DaemonSet crashes":        {func(s *trialCourse) { s.restarts = 2 }, Failed, 9, 9},
	"a DaemonSet crashes twice":  {func(s *trialCourse) { s.restarts, s.most = 3, 2 }, Passed, 13, 13},
	"no network":                 {func(s *trialCourse) { s.network = Failed }, Failed, 6, 6},
	"nothing to measure with":    {func(s *trialCourse) { s.network = Skipped }, Passed, 13, 13},
	"no measurement":             {func(s *trialCourse) { s.measured = never }, Inconclusive, 13, 13},
	"a label that comes late":    {func(s *trialCourse) { s.differs, s.agrees = 3, 8 }, Passed, 13, 13},
	"a label that never comes":   {func(s *trialCourse) { s.differs = 3 }, Failed, 9, 9},
	"a taint late in the soak":   {func(s *trialCourse) { s.differs, s.agrees = 12, 16 }, Passed, 16, 16},
	"a condition that stays":     {func(s *trialCourse) { s.differs = 12 }, Failed, 18, 18},
	"a rollout passes by":        {func(s *trialCourse) { s.away, s.back, s.rollout = 12, 30, true }, Passed, 30, 30},
	"a DaemonSet away for long":  {func(s *trialCourse) { s.away, s.back = 12, 22 }, Passed, 22, 22},
	"a DaemonSet away for good":  {func(s *trialCourse) { s.away = 12 }, Failed, 23, 23},
	"a copy of another's disk":   {func(s *trialCourse) { s.twin = true }, Failed, 5, 5},
	"a copy that is never Ready": {func(s *trialCourse) { s.twin, s.ready = true, never }, Failed, 13, 13},
}

// TestStories follows trials minute by minute to their verdict.
func TestStories(t *testing.T) {
	for name, test := range stories {
		t.Run(name, func(t *testing.T) {
			s := fine()
			test.change(&s)
			for minute := range 60 {
				v := Judge(s.at(minute))
				testChecks(t, v)
				if v.Result == Pending {
					continue
				}
				if v.Result != test.result || minute < test.earliest || minute > test.atAll {
					t.Errorf("minute %d: %s: %s\nwant %s from minute %d to %d", minute, v.Result, v.Message, test.result, test.earliest, test.atAll)
				}
				return
			}
			t.Errorf("there is no verdict, want %s", test.result)
		})
	}
}

// TestMissingLooksFailNoTrial: missing looks delay the result of a trial, but do not change the result.
func TestMissingLooksFailNoTrial(t *testing.T) {
	names := make([]string, 0, len(stories))
	for name := range stories {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "story")
		s := fine()
		stories[name].change(&s)
		from, lasts := rapid.IntRange(0, 15).Draw(t, "blind from"), rapid.IntRange(1, 30).Draw(t, "for")
		for minute := range 120 {
			if minute >= from && minute < from+lasts {
				continue
			}
			f := s.at(minute)
			if minute >= from {
				f.Unobserved = time.Duration(lasts) * time.Minute
			}
			v := Judge(f)
			if v.Result == Pending {
				continue
			}
			if want := stories[name].result; v.Result != want {
				t.Fatalf("%s, blind from minute %d for %d: minute %d: %s: %s, want %s", name, from, lasts, minute, v.Result, v.Message, want)
			}
			return
		}
		t.Fatalf("%s, blind from minute %d for %d: there is no verdict", name, from, lasts)
	})
}

// TestWorseIsNeverBetter: a worse trial never has a better verdict.
func TestWorseIsNeverBetter(t *testing.T) {
	rank := map[Result]int{Passed: 0, Inconclusive: 1, Pending: 1, Failed: 2}
	worsen := map[string]func(*Facts){
		"twin":     func(f *Facts) { f.Twins = append(slices.Clone(f.Twins), "w-9") },
		"disk":     func(f *Facts) { f.Digest = "b" },
		"network":  func(f *Facts) { f.Network = Measure{Failed, "no"} },
		"images":   func(f *Facts) { f.Images = Measure{Failed, "no"} },
		"job":      func(f *Facts) { f.Job = Measure{Failed, "no"} },
		"daemon":   func(f *Facts) { f.Daemons = append(slices.Clone(f.Daemons), Daemon{Name: "x", Restarts: 9}) },
		"identity": func(f *Facts) { f.IdentityKnown = false },
	}
	rapid.Check(t, func(t *rapid.T) {
		f := drawn.Draw(t, "facts")
		before := Judge(f)
		for name, change := range worsen {
			worse := f
			change(&worse)
			if after := Judge(worse); rank[after.Result] < rank[before.Result] {
				t.Fatalf("%s: was %s: %s\nis %s: %s", name, before.Result, before.Message, after.Result, after.Message)
			}
		}
	})
}
