package joinhealth

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestHeldBack(t *testing.T) {
	first := Promotion{Pool: "first", Version: "2026.03.09", At: noon.Add(-2 * time.Hour)}
	with := func(p Promotion, change func(*Promotion)) Promotion { change(&p); return p }
	waits := "pool first took version 2026.03.09 first: the other pools wait until 3 nodes of the day's versions joined, until 2026-03-10T10:00:00Z at the latest"
	suspect := "version 2026.03.09 of pool first, of the same day, is suspect, so no other pool takes a new version"
	for name, test := range map[string]struct {
		now, began time.Duration
		others     []Promotion
		want       string
	}{
		"no other pool":       {0, -3 * time.Hour, nil, ""},
		"the first pool":      {0, -3 * time.Hour, []Promotion{first}, waits},
		"two nodes joined":    {0, -3 * time.Hour, []Promotion{with(first, func(p *Promotion) { p.Joined = 2 })}, waits},
		"three nodes joined":  {0, -3 * time.Hour, []Promotion{with(first, func(p *Promotion) { p.Joined = 3 })}, ""},
		"just before a day":   {22*time.Hour - time.Second, -3 * time.Hour, []Promotion{first}, waits},
		"after a day":         {22 * time.Hour, -3 * time.Hour, []Promotion{first}, ""},
		"the wave goes on":    {22 * time.Hour, -3 * time.Hour, []Promotion{first, {Pool: "second", At: noon.Add(22 * time.Hour)}}, ""},
		"of the day before":   {23 * time.Hour, 22 * time.Hour, []Promotion{first}, ""},
		"nodes of two pools":  {0, -3 * time.Hour, []Promotion{with(first, func(p *Promotion) { p.Joined = 1 }), {Pool: "second", At: noon, Joined: 2}}, ""},
		"suspect":             {0, -3 * time.Hour, []Promotion{with(first, func(p *Promotion) { p.Suspect, p.Joined = true, 9 })}, suspect},
		"suspect for a day":   {60 * time.Hour, -3 * time.Hour, []Promotion{with(first, func(p *Promotion) { p.Suspect = true })}, suspect},
		"suspect long before": {60 * time.Hour, 22 * time.Hour, []Promotion{with(first, func(p *Promotion) { p.Suspect = true })}, ""},
	} {
		if got := HeldBack(noon.Add(test.now), noon.Add(test.began), test.others); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// badDay is a day on which several pools take a version with the same fault. Other pools stay on their versions, and get a node every ten minutes.
type badDay struct {
	failurePattern
	pools  int
	every  time.Duration
	others bool
}

// play returns how many pools roll back within six hours, and how many nodes of the bad versions were built.
func (d badDay) play(seed uint64) (back, built int) {
	random := rand.New(rand.NewPCG(seed, 9)) //nolint:gosec // a simulation that is the same in each run
	machines, joins := make([][]machine, d.pools), make([][]Join, d.pools)
	var others []machine
	var elsewhere []Join
	isBack := make([]bool, d.pools)
	for passed := time.Duration(0); passed < 6*time.Hour; passed += time.Minute {
		now := noon.Add(passed)
		if d.others && random.IntN(10) == 0 {
			others = append(others, machine{len(others), now, false, 1 + 4*random.Float64()})
		}
		var seen []Node
		for _, m := range others {
			seen = append(seen, d.observe("other", m, now))
		}
		elsewhere = Judge(now, time.Time{}, seen, elsewhere, Limits{})
		for i := range machines {
			if !isBack[i] && (passed+time.Duration(i)*2*time.Minute)%d.every == 0 {
				machines[i] = append(machines[i], machine{built, now, random.IntN(100) < d.percent, 1 + 4*random.Float64()})
				built++
			}
			var nodes []Node
			for _, m := range machines[i] {
				nodes = append(nodes, d.observe("bad", m, now))
			}
			joins[i] = Judge(now, time.Time{}, nodes, joins[i], Limits{})
		}
		for i := range machines {
			f := Facts{Now: now, Pool: "workers", Current: "bad", Prior: "good", Since: noon, Others: 10, OthersReady: 10, Joins: joins[i]}
			neighbors := []Neighbor{{Version: "old", Joins: elsewhere}}
			for k := range machines {
				if k != i {
					neighbors = append(neighbors, Neighbor{"bad", joins[k], true})
				}
			}
			f.Meet(neighbors)
			if !isBack[i] && Decide(f).Do == RollBack {
				isBack[i] = true
				back++
			}
		}
	}
	return back, built
}

// TestOneFaultInSeveralPools: pools with the same fault are compared with pools that kept their version, and roll back. Without such pools the
// failures look like an outage, and a person decides.
func TestOneFaultInSeveralPools(t *testing.T) {
	for _, d := range []badDay{
		{failurePattern{name: "never join", percent: 100, never: true}, 2, 7 * time.Minute, true},
		{failurePattern{name: "not Ready after 15 min", percent: 100, unready: at(15)}, 2, 7 * time.Minute, true},
		{failurePattern{name: "not Ready after 45 min", percent: 100, unready: at(45)}, 2, 7 * time.Minute, true},
		{failurePattern{name: "never join", percent: 100, never: true}, 5, 20 * time.Minute, true},
		{failurePattern{name: "never join", percent: 100, never: true}, 3, 7 * time.Minute, false},
	} {
		for seed := range uint64(3) {
			back, built := d.play(seed)
			t.Logf("%s, %d pools, others %t: %d rolled back, %d nodes built", d.name, d.pools, d.others, back, built)
			if want := map[bool]int{true: d.pools, false: 0}[d.others]; back != want {
				t.Errorf("%s, %d pools, others %t: %d rolled back, want %d", d.name, d.pools, d.others, back, want)
			}
		}
	}
}

// TestSameDayFailuresAreNoControl: the sentence names versions of the same day, which fail elsewhere, too.
func TestSameDayFailuresAreNoControl(t *testing.T) {
	f := pool("FF")
	f.Elsewhere, f.SameDay = nil, joined("2026.03.09", "FF", noon.Add(-2*time.Hour))
	if got := Decide(f); got.Do != Nothing || got.State != Failing || !strings.Contains(got.Message, "other pools took a version on the same day") {
		t.Errorf("%+v", got)
	}
	f.Elsewhere = joined("x", "JJJJ", noon.Add(-2*time.Hour))
	if got := Decide(f); got.Do != RollBack {
		t.Errorf("pools of another day join: %+v", got)
	}
}

func TestMostFail(t *testing.T) {
	for word, want := range map[string]bool{"": false, "F": false, "FF": true, "FFJJ": false, "FFFJ": true, "JJJJFF": false} {
		if got := MostFail(noon, joined("b", word, noon.Add(-3*time.Hour)), "b"); got != want {
			t.Errorf("%s: %t", word, got)
		}
	}
	if MostFail(noon, joined("", "FFF", noon.Add(-3*time.Hour)), "") {
		t.Error("an unknown version is suspect")
	}
}

func TestPodsFailing(t *testing.T) {
	node := func(name, version, pods string) NodePods { // a word per pod: its workload, with ! for a failing one
		n := NodePods{Node: name, Version: version, Workloads: map[string]bool{}}
		for _, pod := range strings.Fields(pods) {
			n.Workloads[strings.TrimSuffix(pod, "!")] = !strings.HasSuffix(pod, "!")
		}
		return n
	}
	for pods, want := range map[string]string{ // of the version's node, with "dns web batch!" elsewhere
		"dns web": "", "dns! web": "dns", "web! dns!": "dns", "batch! new!": "", "": "",
	} {
		got := PodsFailing("b", []NodePods{node("n", "b", pods), node("m", "b", "new"), node("o", "a", "dns web batch!")})
		if got["n"] != want || len(got) != 3 {
			t.Errorf("%s: %q, want %q", pods, got, want)
		}
	}
}

// TestPodsOfACohort: a workload that fails on each node of the version, and nowhere else, calls a person.
func TestPodsOfACohort(t *testing.T) {
	var nodes []CohortNode
	for i := range 12 {
		n := aged([]string{"b", "a"}[min(i/4, 1)], 5000, 0)
		n.PodsSeen = true
		if i < 4 {
			n.PodsFail = "DaemonSet shop/agent@7d9f"
		}
		nodes = append(nodes, n)
	}
	c := CohortsOf(noon, "b", nodes, Limits{})
	want := "version b: on 0 of 4 nodes the pods run that run on other nodes of the pool; on the other nodes: 8 of 8 (p = 0.002), for example DaemonSet shop/agent"
	if got := c.worse("b"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.Line(); got != "4 of 4 Ready, before: 8 of 8; pods run on 0 of 4, before: 8 of 8" {
		t.Error(got)
	}
	for i := range nodes {
		nodes[i].PodsSeen = i > 1
	}
	if got := CohortsOf(noon, "b", nodes, Limits{}).worse("b"); got != "" {
		t.Errorf("two sampled nodes: %s", got)
	}
	if got := fmt.Sprint(CohortsOf(noon, "b", nodes[:5], Limits{}).Line()); got != "" {
		t.Errorf("one other node: %s", got)
	}
}
