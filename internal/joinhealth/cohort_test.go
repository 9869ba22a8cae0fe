package joinhealth

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestFisher against values of the hypergeometric distribution by hand.
func TestFisher(t *testing.T) {
	for _, test := range []struct {
		a, b Share
		want float64
	}{
		{Share{0, 3}, Share{3, 3}, 1.0 / 20}, {Share{0, 3}, Share{10, 10}, 1.0 / 286}, {Share{1, 4}, Share{4, 4}, 4.0 / 56}, {Share{3, 3}, Share{3, 3}, 1},
		{Share{2, 4}, Share{2, 4}, 53.0 / 70}, {Share{300, 303}, Share{300, 300}, 0.1267},
	} {
		if got := fisher(test.a, test.b); math.Abs(got-test.want) > 0.0005 {
			t.Errorf("%s and %s: %.5f, want %.5f", test.a, test.b, got, test.want)
		}
	}
}

// aged returns a node that started some minutes before noon, and lost Ready at an age in minutes; 0 for never.
func aged(version string, age, lost int) CohortNode {
	n := CohortNode{Version: version, Running: noon.Add(-time.Duration(age) * time.Minute), Ready: true}
	if n.Changed = n.Running.Add(2 * time.Minute); lost > 0 && lost <= age {
		n.Ready, n.Changed = false, n.Running.Add(time.Duration(lost)*time.Minute)
	}
	return n
}

func TestCohorts(t *testing.T) {
	many := func(n int, node CohortNode) (all []CohortNode) {
		for range n {
			all = append(all, node)
		}
		return all
	}
	before := many(10, aged("a", 5000, 0))
	for name, test := range map[string]struct {
		own  []CohortNode
		with []CohortNode
		want string
	}{
		"three died at minute 61": {append(many(20, aged("b", 50, 0)), many(3, aged("b", 90, 61))...), before,
			"version b: 0 of 3 nodes of an age are Ready; other nodes of the pool of that age: 10 of 10 (p = 0.0035)"},
		"two died":                {many(2, aged("b", 90, 61)), before, ""},
		"a moment ago":            {many(3, aged("b", 62, 61)), before, ""},
		"no other is of that age": {many(9, aged("b", 90, 61)), many(9, aged("a", 60, 0)), ""},
		"two others":              {many(9, aged("b", 90, 61)), many(2, aged("a", 5000, 0)), ""},
		"the others died, too":    {many(9, aged("b", 90, 61)), many(9, aged("a", 90, 61)), ""},
		"three of a hundred":      {append(many(97, aged("b", 90, 0)), many(3, aged("b", 90, 61))...), before, ""},
		"half of the nodes": {append(many(8, aged("b", 90, 0)), many(8, aged("b", 90, 61))...), many(20, aged("a", 5000, 0)),
			"version b: 8 of 16 nodes of an age are Ready; other nodes of the pool of that age: 20 of 20 (p = 0.00043)"},
		"each died at another age": {[]CohortNode{aged("b", 400, 300), aged("b", 500, 200), aged("b", 600, 70), aged("b", 650, 90)}, before,
			"version b: 0 of 4 nodes of an age are Ready; other nodes of the pool of that age: 10 of 10 (p = 0.001)"},
	} {
		if got := CohortsOf(noon, "b", append(test.own, test.with...), Limits{}).worse("b"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestACohortCallsAPerson: the verdict reports the cohort, and does not roll back.
func TestACohortCallsAPerson(t *testing.T) {
	f := Facts{Now: noon, Pool: "workers", Current: "b", Prior: "a", Others: 10, OthersReady: 10, Cohorts: Cohorts{Share{0, 4}, Share{10, 10}}}
	v := Decide(f)
	if v.State != Failing || v.Do != Nothing || !strings.HasPrefix(v.Message, "version b: 0 of 4 nodes of an age are Ready") ||
		!strings.Contains(v.Message, "kamino rollback workers") {
		t.Errorf("%+v", v)
	}
	f.Others, f.OthersReady = 10, 7
	if v := Decide(f); v.State != Watching {
		t.Errorf("in an outage of all nodes: %+v", v)
	}
}

// worldWeek returns whether a pool has an alarm in a week in which a version replaces another. Of a hundred nodes, chance lose Ready each day for an
// hour or for long, whatever their version; bad nodes of the version do so at minute 61.
func worldWeek(random *rand.Rand, size int, chance float64, bad int) (alarm bool, after time.Duration) {
	type node struct {
		CohortNode
		back time.Time
		dies bool
	}
	nodes := make([]node, size)
	for i := range nodes {
		nodes[i] = node{CohortNode: CohortNode{Version: "a", Running: noon.Add(-time.Duration(random.IntN(14*24)) * time.Hour), Ready: true}}
	}
	const look = 30 * time.Minute
	for passed := time.Duration(0); passed < 7*24*time.Hour; passed += look {
		now := noon.Add(passed)
		if random.Float64() < float64(size)*look.Hours()/(4*24) { // each node lives four days
			nodes[random.IntN(size)] = node{CohortNode: CohortNode{Version: "b", Running: now, Ready: true, Changed: now}, dies: random.IntN(100) < bad}
		}
		var all []CohortNode
		for i := range nodes {
			n := &nodes[i]
			switch age := now.Sub(n.Running); {
			case n.dies && n.Ready && age > time.Hour:
				n.Ready, n.Changed, n.back = false, n.Running.Add(61*time.Minute), now.AddDate(1, 0, 0)
			case n.Ready && random.Float64() < chance/100*look.Hours()/24:
				n.Ready, n.Changed, n.back = false, now, now.Add(time.Hour)
				if random.IntN(5) == 0 {
					n.back = now.Add(24 * time.Hour)
				}
			case !n.Ready && now.After(n.back):
				n.Ready, n.Changed = true, now
			}
			all = append(all, n.CohortNode)
		}
		if CohortsOf(now, "b", all, Limits{}).worse("b") != "" {
			return true, passed
		}
	}
	return false, 0
}

// TestCohortFalseAlarms: at most one of 500 pool-weeks has a false alarm, in pools of 3 to 600 nodes, of which up to 5 percent lose Ready each day.
// A version whose nodes die at minute 61 is noticed in each pool of ten nodes or more.
func TestCohortFalseAlarms(t *testing.T) {
	weeks := 300
	if testing.Short() {
		weeks = 40
	}
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a simulation that is the same in each run
	alarms, all := 0, 0
	for _, size := range []int{3, 5, 10, 30, 100, 600} {
		for _, chance := range []float64{0.5, 5} {
			found := 0
			for range max(10, weeks/max(1, size/10)) {
				all++
				if alarm, _ := worldWeek(random, size, chance, 0); alarm {
					found++
				}
			}
			t.Logf("%d nodes, %.1f %% lost each day: %d false alarms", size, chance, found)
			alarms += found
		}
	}
	if alarms*500 > max(all, 500) {
		t.Errorf("%d false alarms in %d pool-weeks", alarms, all)
	}
	for size, least := range map[int]int{10: 10, 30: 10, 100: 10} {
		for _, bad := range []int{100, 50} {
			found, sum := 0, time.Duration(0)
			for range 10 {
				if alarm, after := worldWeek(random, size, 0.5, bad); alarm {
					found, sum = found+1, sum+after
				}
			}
			mean := (sum / time.Duration(max(1, found))).Round(time.Hour)
			t.Logf("%d nodes, %d %% die at minute 61: found in %d of 10 weeks, after %s", size, bad, found, mean)
			if bad == 100 && found < least {
				t.Errorf("%d nodes: found in %d of 10 weeks", size, found)
			}
		}
	}
}
