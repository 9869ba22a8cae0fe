package joinhealth

import (
	"testing"
	"time"
)

// minute returns the time m minutes after noon.
func minute(m float64) time.Time { return noon.Add(time.Duration(m * float64(time.Minute))) }

// readyAt returns a join in a different pool, with the minutes of start and Ready.
func readyAt(began, ready float64) Join {
	return Join{Version: "x", Running: minute(began), Outcome: Joined, Took: minute(ready).Sub(minute(began))}
}

// notReady returns a join that started at a minute and is not Ready.
func notReady(outcome Outcome, began float64) Join {
	return Join{Version: "x", Running: minute(began), Outcome: outcome, OverdueSince: minute(began + 14)}
}

// lateAt returns the first joins of a version: started at the given minutes, overdue 15 minutes later.
func lateAt(minutes ...float64) []Join {
	var joins []Join
	for _, m := range minutes {
		joins = append(joins, Join{Version: "2026.03.09", Running: minute(m), Outcome: Failed, OverdueSince: minute(m + 15)})
	}
	return joins
}

// TestControl: two nodes began at minutes 0 and 3 and were overdue at 15 and 18. The control group shows whether nodes
// joined in that time.
func TestControl(t *testing.T) {
	for name, test := range map[string]struct {
		control []Join
		back    bool
	}{
		"none for a day":                   {nil, true},
		"none at the time":                 {[]Join{readyAt(-200, -198)}, false},
		"joined meanwhile":                 {[]Join{readyAt(3, 6)}, true},
		"started before the last":          {[]Join{readyAt(2, 6)}, false},
		"Ready well in time":               {[]Join{readyAt(3, 10)}, true},
		"Ready too late for the first":     {[]Join{readyAt(3, 10.5)}, false},
		"its DaemonSets were late":         {[]Join{func() Join { j := readyAt(3, 6); j.Recovered = minute(12); return j }()}, false},
		"the outage was over":              {[]Join{readyAt(5, 17)}, false},
		"as many failed as joined":         {[]Join{readyAt(3, 6), notReady(Failed, 1)}, false},
		"more joined than failed":          {[]Join{readyAt(3, 6), readyAt(4, 6), notReady(Failed, 1)}, true},
		"more joined, but an hour before":  {[]Join{readyAt(3, 6), readyAt(-62, -60), notReady(Failed, 1)}, false},
		"failed more than an hour before":  {[]Join{readyAt(3, 6), notReady(Failed, -61)}, true},
		"pending ones are no evidence":     {[]Join{readyAt(3, 6), notReady(Waiting, 1)}, true},
		"only pending":                     {[]Join{notReady(Waiting, 1)}, false},
		"only excluded ones":               {[]Join{notReady(Uncounted, 1)}, true},
		"failed, and nothing else is seen": {[]Join{notReady(Failed, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := pool("")
			f.Joins, f.Elsewhere = lateAt(0, 3), test.control
			if got := Decide(f); (got.Do == RollBack) != test.back || got.State != Failing {
				t.Errorf("%s, %s", got.Do, got.Message)
			}
		})
	}
}

// TestFailuresWithoutControl count after a long time, unless a control node fails or is pending meanwhile.
func TestFailuresWithoutControl(t *testing.T) {
	for name, test := range map[string]struct {
		last    float64
		control []Join
		back    bool
	}{
		"less than three hours":     {194, []Join{readyAt(-200, -198)}, false},
		"more than three hours":     {195, []Join{readyAt(-200, -198)}, true},
		"another fails in between":  {195, []Join{readyAt(-200, -198), notReady(Failed, 20)}, true},
		"the last shares a failure": {195, []Join{readyAt(-200, -198), notReady(Failed, 145)}, false},
		"all share a failure":       {195, []Join{readyAt(-200, -198), notReady(Failed, 10), notReady(Failed, 185)}, false},
		"another is pending":        {195, []Join{readyAt(-200, -198), notReady(Waiting, 10), notReady(Waiting, 200)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := pool("")
			f.Now = noon.Add(5 * time.Hour)
			f.Joins, f.Elsewhere = lateAt(0, test.last), test.control
			if got := Decide(f); (got.Do == RollBack) != test.back || got.State != Failing {
				t.Errorf("%s, %s", got.Do, got.Message)
			}
		})
	}
}

// TestFailuresInARow: a failed node counts only if the control node before the failed node joined.
func TestFailuresInARow(t *testing.T) {
	for name, test := range map[string]struct {
		before []Join
		back   bool
	}{
		"joined before":               {[]Join{readyAt(-3, -1)}, true},
		"failed before":               {[]Join{notReady(Failed, -3)}, false},
		"failed long before":          {[]Join{notReady(Failed, -70)}, true},
		"joined between the failures": {[]Join{notReady(Failed, -9), readyAt(-3, -1)}, true},
	} {
		f := pool("")
		f.Now = noon.Add(time.Hour)
		f.Joins = lateAt(0, 1)
		f.Elsewhere = append(test.before, readyAt(2, 3), readyAt(2, 4), readyAt(3, 4))
		if got := Decide(f); (got.Do == RollBack) != test.back {
			t.Errorf("%s: %s: %s", name, got.State, got.Message)
		}
	}
}

// TestYoungControlNodeIsIgnored: the nodes were Ready and failed after 20 minutes. A control node counts only if older
// than that. For instances without a Node, each joined node has come further.
func TestYoungControlNodeIsIgnored(t *testing.T) {
	for _, test := range []struct {
		node  string
		began float64
		back  bool
	}{{"n", -16, false}, {"n", -21, true}, {"", -16, true}} {
		f := pool("")
		for _, born := range []float64{-27, -26} {
			f.Joins = append(f.Joins, Join{Node: test.node, Version: f.Current, Running: minute(born), Outcome: Failed, OverdueSince: minute(born + 20)})
		}
		f.Elsewhere = []Join{readyAt(test.began, test.began+2)}
		if got := Decide(f); (got.Do == RollBack) != test.back {
			t.Errorf("%+v: %s: %s", test, got.State, got.Message)
		}
	}
}

// TestAYoungNodeOfTheVersionIsNotJudged: three nodes are younger than the failed nodes were at their failure.
func TestAYoungNodeOfTheVersionIsNotJudged(t *testing.T) {
	f := pool("")
	for _, born := range []float64{-60, -55} {
		f.Joins = append(f.Joins, Join{Node: "n", Version: f.Current, Running: minute(born), Outcome: Failed, OverdueSince: minute(born + 40)})
	}
	f.Joins = append(f.Joins, joined(f.Current, "JJJ", minute(-35))...)
	f.Elsewhere = []Join{readyAt(-54, -52)}
	if got := Decide(f); got.Do != RollBack || len(got.Failed) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestTheLateOfLimits: a join that was never seen overdue has the default time.
func TestTheLateOfLimits(t *testing.T) {
	if got := (Join{Running: noon}).late().Sub(noon); got != (Limits{}).Defaulted().Join {
		t.Errorf("late after %s", got)
	}
	if got := (Join{Running: noon, OverdueSince: noon.Add(time.Second)}).late().Sub(noon); got != time.Second {
		t.Errorf("late after %s", got)
	}
}
