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

// TestWhatOtherPoolsTell: two nodes began at minutes 0 and 3 and were overdue at 15 and 18. The joins of other pools
// show whether joins worked in that time.
func TestWhatOtherPoolsTell(t *testing.T) {
	for name, test := range map[string]struct {
		elsewhere []Join
		want      State
	}{
		"nothing":                                  {nil, Bad},
		"others joined meanwhile":                  {[]Join{readyAt(3, 6), notReady(Failed, 1)}, Bad},
		"others began a little earlier":            {[]Join{readyAt(2, 6), notReady(Failed, 1)}, Alone},
		"others began with the last one":           {[]Join{readyAt(3, 5), notReady(Failed, 1)}, Bad},
		"others were Ready before":                 {[]Join{readyAt(-3, -1), notReady(Failed, 1)}, Everywhere},
		"others had hardly more to do":             {[]Join{readyAt(-8, 3.5), notReady(Failed, 1)}, Everywhere},
		"only the second one could have":           {[]Join{readyAt(8, 11.5), notReady(Failed, 1)}, Everywhere},
		"at the last moment":                       {[]Join{readyAt(6, 10), notReady(Failed, 1)}, Bad},
		"it was over when these were late":         {[]Join{readyAt(5, 17), notReady(Failed, 1)}, Everywhere},
		"it was over when these were gone":         {[]Join{readyAt(20, 32), notReady(Failed, 1)}, Everywhere},
		"over, and nobody else failed":             {[]Join{readyAt(20, 32)}, Alone},
		"some join afterwards":                     {[]Join{readyAt(40, 43), notReady(Failed, 1)}, Everywhere},
		"others failed within the hour":            {[]Join{notReady(Failed, 60)}, Everywhere},
		"others failed longer ago":                 {[]Join{notReady(Failed, -61)}, Alone},
		"others failed longer ago, and one joined": {[]Join{notReady(Failed, -61), readyAt(10, 17)}, Bad},
		"others are awaited":                       {[]Join{notReady(Waiting, 10)}, Awaited},
		"others are awaited that began just then":  {[]Join{notReady(Waiting, 20)}, Awaited},
		"others are awaited that began much later": {[]Join{notReady(Waiting, 25)}, Bad},
		"others have been awaited for hours":       {[]Join{notReady(Waiting, -100)}, Bad},
		"some failed, some are awaited":            {[]Join{notReady(Waiting, 10), notReady(Failed, 1)}, Everywhere},
		"others tell nothing":                      {[]Join{notReady(Uncounted, 1)}, Bad},
	} {
		t.Run(name, func(t *testing.T) {
			f := pool("")
			f.Joins, f.Elsewhere = lateAt(0, 3), test.elsewhere
			if got := Decide(f); got.State != test.want {
				t.Errorf("%s: %s, want %s", got.State, got.Message, test.want)
			}
		})
	}
}

// TestAnOutageExcusesAllIn: no pool whose nodes failed during an outage goes back, as long as a different pool kept
// failed nodes. The start, the end, the usual time of a join and the time of the removal vary.
func TestAnOutageExcusesAllIn(t *testing.T) {
	const begins = 0.0
	for ends := 16.0; ends <= 120; ends += 4 {
		for began := begins; began+15 <= ends; began++ { // every start with a deadline inside the outage
			f := pool("")
			f.Joins = lateAt(began, began+0.5)
			f.Elsewhere = []Join{notReady(Failed, max(began-10, begins))}
			for other := began - 20; other <= ends+30; other += 2 { // every start of a node in a different pool
				switch {
				case other+3 <= begins:
					f.Elsewhere = append(f.Elsewhere, readyAt(other, other+3))
				case other+15 > ends:
					f.Elsewhere = append(f.Elsewhere, readyAt(other, max(other+3, ends)))
				default:
					f.Elsewhere = append(f.Elsewhere, notReady(Failed, other))
				}
			}
			if got := Decide(f); got.State != Everywhere {
				t.Fatalf("an outage of %g minutes, nodes that began at %g: %s, %s", ends, began, got.State, got.Message)
			}
		}
	}
}

// TestAYoungJoinElsewhereShowsNothing: the nodes were Ready and failed after 20 minutes. A node of a different pool
// excludes the time as the cause only if the node is older than that.
func TestAYoungJoinElsewhereShowsNothing(t *testing.T) {
	for _, test := range []struct {
		node   string
		began  float64 // of the node in the different pool
		failed bool    // whether a node of a third pool failed at the time
		want   State
	}{
		{"n", -16, false, Alone}, {"n", -16, true, Everywhere}, {"n", -21, false, Bad}, {"n", -21, true, Bad},
		{"", -16, false, Bad}, {"", -16, true, Bad}, // no Node ever existed: the different pool's node is further
	} {
		f := pool("")
		for _, born := range []float64{-27, -26} {
			f.Joins = append(f.Joins, Join{Node: test.node, Version: f.Current, Running: minute(born), Outcome: Failed, OverdueSince: minute(born + 20)})
		}
		f.Elsewhere = []Join{readyAt(test.began, test.began+2)}
		if test.failed {
			f.Elsewhere = append(f.Elsewhere, notReady(Failed, -30))
		}
		if got := Decide(f); got.State != test.want {
			t.Errorf("%+v: %s: %s", test, got.State, got.Message)
		}
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
