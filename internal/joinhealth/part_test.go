package joinhealth

import (
	"math/rand/v2"
	"testing"
	"time"
)

// failingMinutes returns the share of the minutes in state Failing, from an hour after the second failure on, and whether the pool rolled back.
func failingMinutes(percent int, every time.Duration, seed uint64) (share float64, back bool) {
	d := failurePattern{percent: percent, never: true}
	random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a simulation that is the same in each run
	f := Facts{Pool: "workers", Current: "bad", Prior: "good", Since: noon, Others: 10, OthersReady: 10, Off: true}
	var machines []machine
	failing, watched, since := 0, 0, time.Time{}
	for passed := time.Duration(0); passed < max(6*time.Hour, 40*every); passed += time.Minute {
		f.Now = noon.Add(passed)
		if passed%every == 0 {
			machines = append(machines, machine{len(machines), f.Now, random.IntN(100) < d.percent, 1 + 4*random.Float64()})
		}
		var nodes []Node
		for _, m := range machines {
			nodes = append(nodes, d.observe("bad", m, f.Now))
		}
		f.Joins = Judge(f.Now, time.Time{}, nodes, f.Joins, Limits{})
		v := Decide(f)
		if Count(f.Joins, "bad").Failed >= fewest && since.IsZero() {
			since = f.Now
		}
		if !since.IsZero() && f.Now.Sub(since) > time.Hour {
			watched++
			if v.State == Failing {
				failing++
			}
		}
	}
	return float64(failing) / float64(max(1, watched)), watched == 0
}

// TestAPartOfTheNodesFails: with three of ten bad nodes, the state of a fast pool does not flicker, so that an alert fires. Two of a hundred
// nodes that fail by chance do not make it fail.
func TestAPartOfTheNodesFails(t *testing.T) {
	for _, test := range []struct {
		percent     int
		every       time.Duration
		least, most float64
	}{
		{30, 2 * time.Minute, 0.95, 1}, {50, 2 * time.Minute, 0.99, 1}, {30, 4 * time.Minute, 0.9, 1}, {2, 2 * time.Minute, 0, 0.05},
		{30, 7 * time.Minute, 0.9, 1}, {30, 30 * time.Minute, 0.85, 1}, {2, 7 * time.Minute, 0, 0.05}, {2, 30 * time.Minute, 0, 0.05},
	} {
		sum := 0.0
		const seeds = 10
		for seed := range uint64(seeds) {
			share, _ := failingMinutes(test.percent, test.every, seed)
			sum += share / seeds
		}
		t.Logf("%d %% of the nodes, one each %s: failing in %.0f %% of the minutes", test.percent, test.every, sum*100)
		if sum < test.least || sum > test.most {
			t.Errorf("%d %% of the nodes, one each %s: failing in %.0f %% of the minutes", test.percent, test.every, sum*100)
		}
	}
}
