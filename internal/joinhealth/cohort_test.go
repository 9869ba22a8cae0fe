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
	in := func(zone string, nodes []CohortNode) []CohortNode {
		for i := range nodes {
			nodes[i].Zone = zone
		}
		return nodes
	}
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
		"half of the nodes": {append(many(10, aged("b", 90, 0)), many(10, aged("b", 90, 61))...), many(30, aged("a", 5000, 0)),
			"version b: 10 of 20 nodes of an age are Ready; other nodes of the pool of that age: 30 of 30 (p = 1.8e-05)"},
		"their zone is out": {in("z", many(5, aged("b", 90, 61))), append(in("z", many(4, aged("a", 5000, 4990))), many(20, aged("a", 5000, 0))...), ""},
		"the zone is not": {in("z", many(5, aged("b", 90, 61))), append(in("z", many(3, aged("a", 5000, 0))), before...),
			"version b: 0 of 5 nodes of an age are Ready; other nodes of the pool of that age: 13 of 13 (p = 0.00012)"},
		"each died at another age": {[]CohortNode{aged("b", 400, 300), aged("b", 500, 200), aged("b", 600, 70), aged("b", 650, 90)}, before,
			"version b: 0 of 4 nodes of an age are Ready; other nodes of the pool of that age: 10 of 10 (p = 0.001)"},
	} {
		if got := CohortsOf(noon, "b", append(test.own, test.with...), Limits{}).worse("b"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestProblemsOfACohort: a problem counts on Ready nodes of the version, and not if the others have it, too.
func TestProblemsOfACohort(t *testing.T) {
	with := func(problem string, n int, version string) (all []CohortNode) {
		for range n {
			node := aged(version, 5000, 0)
			node.Problem = problem
			all = append(all, node)
		}
		return all
	}
	for name, test := range map[string]struct {
		nodes      []CohortNode
		want, line string
	}{
		"all nodes of the version": {append(with("DiskPressure", 5, "b"), with("", 10, "a")...),
			"version b: 0 of 5 Ready nodes report no problem; other Ready nodes of the pool: 10 of 10 (p = 0.00033), for example condition DiskPressure",
			"5 of 5 Ready, before: 10 of 10; without a problem: 0 of 5, before: 10 of 10"},
		"one node": {append(with("DiskPressure", 1, "b"), append(with("", 9, "b"), with("", 10, "a")...)...), "",
			"10 of 10 Ready, before: 10 of 10; without a problem: 9 of 10, before: 10 of 10"},
		"the others, too": {append(with("DiskPressure", 5, "b"), with("DiskPressure", 10, "a")...), "",
			"5 of 5 Ready, before: 10 of 10; without a problem: 0 of 5, before: 0 of 10"},
		"only the others": {append(with("", 5, "b"), with("DiskPressure", 10, "a")...), "", "5 of 5 Ready, before: 10 of 10"},
	} {
		c := CohortsOf(noon, "b", test.nodes, Limits{})
		if got := c.worse("b"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if got := c.Line(); got != test.line {
			t.Errorf("%s: %q, want %q", name, got, test.line)
		}
	}
}

// TestNodesThatDieAtOneAge: without any other node, an age at which nodes die one after the other is no chance. At one time it may be an outage.
func TestNodesThatDieAtOneAge(t *testing.T) {
	dead := func(age int, starts ...int) (all []CohortNode) {
		for _, start := range starts {
			all = append(all, aged("b", start, age))
		}
		return all
	}
	for name, test := range map[string]struct {
		nodes []CohortNode
		want  string
	}{
		"three of six": {append(dead(61, 100, 200, 300), dead(0, 150, 250, 350)...),
			"version b: 3 of 6 nodes lost Ready at the age of 1h1m0s, one after the other (p = 5e-07); look for a lease or a credential that ends"},
		"two of six":    {append(dead(61, 100, 200), dead(0, 150, 250, 350)...), ""},
		"at other ages": {[]CohortNode{aged("b", 100, 30), aged("b", 200, 61), aged("b", 300, 90), aged("b", 400, 0)}, ""},
		"at one time":   {append(dead(61, 100, 101, 102, 103, 104), dead(0, 150, 250, 350)...), ""},
	} {
		if got := CohortsOf(noon, "b", test.nodes, Limits{}).worse("b"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestACohortCallsAPerson: the verdict reports the cohort, and does not roll back.
func TestACohortCallsAPerson(t *testing.T) {
	f := Facts{Now: noon, Pool: "workers", Current: "b", Prior: "a", Others: 10, OthersReady: 10, Cohorts: Cohorts{Comparable: Comparison{Share{0, 4}, Share{10, 10}}}}
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

// weekOf is a week in which a version replaces another. Of a hundred nodes, chance lose Ready each day for an hour or for long, whatever their
// version; bad percent of the version's nodes do so at minute 61. isRough: many nodes are lost together, too: a zone is out for hours, spot
// instances are reclaimed and replaced in one zone, nodes reboot one after the other, and a part of the network is away for a while.
type weekOf struct {
	size    int
	chance  float64
	bad     int
	isRough bool
	random  *rand.Rand
	// problems decides about conditions: of a hundred nodes, chance report one each day, for an hour or for a day.
	problems *rand.Rand

	nodes []weekNode
}

type weekNode struct {
	CohortNode
	back time.Time
	dies bool
	well time.Time
}

const (
	weekLook = 30 * time.Minute
	zones    = 3
)

// lose takes Ready from a node until a time.
func (n *weekNode) lose(now, until time.Time) {
	if n.Ready {
		n.Ready, n.Changed = false, now
	}
	if until.After(n.back) {
		n.back = until
	}
}

func (w *weekOf) replace(i int, zone string, now time.Time) {
	w.nodes[i] = weekNode{CohortNode: CohortNode{Version: "b", Zone: zone, Running: now, Ready: true, Changed: now}, dies: w.random.IntN(100) < w.bad}
}

func (w *weekOf) zone() string { return string(rune('x' + w.random.IntN(zones))) }

// disturb plays what makes many nodes lose Ready together; each kind once a week on average.
func (w *weekOf) disturb(now time.Time) {
	happens := func() bool { return w.random.Float64() < weekLook.Hours()/(7*24) }
	if happens() { // a zone is out
		zone, until := w.zone(), now.Add(time.Duration(60+w.random.IntN(180))*time.Minute)
		for i := range w.nodes {
			if w.nodes[i].Zone == zone {
				w.nodes[i].lose(now, until)
			}
		}
	}
	if happens() { // spot instances are reclaimed, and the group replaces all of them where there is capacity
		zone, share := w.zone(), 20+w.random.IntN(40)
		for i := range w.nodes {
			if w.random.IntN(100) < share {
				w.replace(i, zone, now)
			}
		}
	}
	if happens() { // half of the nodes are cut off
		until := now.Add(time.Duration(15+w.random.IntN(60)) * time.Minute)
		for i := range w.nodes {
			if w.random.IntN(2) == 0 {
				w.nodes[i].lose(now, until)
			}
		}
	}
	if happens() { // a rollout takes each tenth node for an hour
		for i := range w.nodes {
			if w.random.IntN(10) == 0 {
				w.nodes[i].lose(now, now.Add(time.Hour))
			}
		}
	}
}

// play returns whether the pool has an alarm, and when.
func (w *weekOf) play() (alarm bool, after time.Duration) {
	w.problems = rand.New(rand.NewPCG(uint64(w.size), w.random.Uint64())) //nolint:gosec // a simulation that is the same in each run
	w.nodes = make([]weekNode, w.size)
	for i := range w.nodes {
		w.nodes[i] = weekNode{CohortNode: CohortNode{Version: "a", Zone: w.zone(), Running: noon.Add(-time.Duration(w.random.IntN(14*24)) * time.Hour), Ready: true}}
	}
	for passed := time.Duration(0); passed < 7*24*time.Hour; passed += weekLook {
		now := noon.Add(passed)
		if w.random.Float64() < float64(w.size)*weekLook.Hours()/(4*24) { // each node lives four days
			w.replace(w.random.IntN(w.size), w.zone(), now)
		}
		if w.isRough {
			w.disturb(now)
		}
		all := make([]CohortNode, 0, w.size)
		for i := range w.nodes {
			n := &w.nodes[i]
			switch age := now.Sub(n.Running); {
			case n.dies && age > time.Hour:
				if n.Ready {
					n.Ready, n.Changed = false, n.Running.Add(61*time.Minute)
				}
			case n.Ready && w.random.Float64() < w.chance/100*weekLook.Hours()/24:
				n.lose(now, now.Add([]time.Duration{time.Hour, time.Hour, time.Hour, time.Hour, 24 * time.Hour}[w.random.IntN(5)]))
			case !n.Ready && now.After(n.back):
				n.Ready, n.Changed = true, now
			}
			if w.problems.Float64() < w.chance/100*weekLook.Hours()/24 {
				n.Problem, n.well = "DiskPressure", now.Add([]time.Duration{time.Hour, 24 * time.Hour}[w.problems.IntN(2)])
			}
			if now.After(n.well) {
				n.Problem = ""
			}
			all = append(all, n.CohortNode)
		}
		if CohortsOf(now, "b", all, Limits{}).worse("b") != "" {
			return true, passed
		}
	}
	return false, 0
}

// TestCohortFalseAlarms: at most one of 500 pool-weeks has a false alarm, in pools of 3 to 600 nodes, of which up to 5 percent lose Ready each day,
// and in rough weeks. A version whose nodes die at minute 61 is noticed in each pool of ten nodes or more.
func TestCohortFalseAlarms(t *testing.T) {
	weeks := 400
	if testing.Short() {
		weeks = 40
	}
	least := max(10, weeks/5)
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a simulation that is the same in each run
	for _, isRough := range []bool{false, true} {
		alarms, all := 0, 0
		for _, size := range []int{3, 5, 10, 30, 100, 600} {
			for _, chance := range []float64{0.5, 5} {
				found := 0
				for range max(least, weeks/max(1, size/10)) {
					all++
					if alarm, _ := (&weekOf{size: size, chance: chance, isRough: isRough, random: random}).play(); alarm {
						found++
					}
				}
				t.Logf("%d nodes, %.1f %% lost each day, rough %t: %d false alarms", size, chance, isRough, found)
				alarms += found
			}
		}
		t.Logf("rough %t: %d false alarms in %d pool-weeks", isRough, alarms, all)
		if alarms*500 > max(all, 500) {
			t.Errorf("rough %t: %d false alarms in %d pool-weeks", isRough, alarms, all)
		}
	}
	for _, size := range []int{10, 30, 100} {
		for _, bad := range []int{100, 50} {
			found, sum := 0, time.Duration(0)
			for range 10 {
				if alarm, after := (&weekOf{size: size, chance: 0.5, bad: bad, random: random}).play(); alarm {
					found, sum = found+1, sum+after
				}
			}
			mean := (sum / time.Duration(max(1, found))).Round(time.Hour)
			t.Logf("%d nodes, %d %% die at minute 61: found in %d of 10 weeks, after %s", size, bad, found, mean)
			if bad == 100 && found < 10 {
				t.Errorf("%d nodes: found in %d of 10 weeks", size, found)
			}
		}
	}
}
