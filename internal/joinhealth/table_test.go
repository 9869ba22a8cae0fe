package joinhealth

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeTable writes the tables into the page: go test ./internal/joinhealth -run TestTableOfDetections -args -write-table.
var writeTable = flag.Bool("write-table", false, "write the tables of detections and false alarms into "+tablePage)

const (
	tablePage  = "../../docs/concepts/join-health.md"
	tableBegin = "<!-- TestTableOfDetections writes this. -->\n"
	tableEnd   = "<!-- end -->\n"
)

// growth is how a pool grows, and its neighbors.
type growth struct {
	name  string
	every time.Duration
	// pools take a bad version at once, a node leaves the pool each shrinks, and alone means that no other pool grows.
	pools   int
	shrinks time.Duration
	alone   bool
}

// result of one simulated growth, in nodes and minutes after the first node of the version.
type result struct{ built, back, alarmed int }

// play returns the result for the first pool after twelve hours; a time is 0 for never.
func (g growth) play(p failurePattern, seed uint64) (r result) {
	random := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a simulation that is the same in each run
	machines, joins := make([][]machine, g.pools), make([][]Join, g.pools)
	var others []machine
	var elsewhere []Join
	for minute := range 12 * 60 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		if !g.alone && minute%10 == 5 {
			others = append(others, machine{len(others), now, false, 1 + 4*random.Float64()})
		}
		var seen []Node
		for _, m := range others[max(0, len(others)-12):] {
			seen = append(seen, p.observe("other", m, now))
		}
		elsewhere = Judge(now, time.Time{}, seen, elsewhere, Limits{})
		elsewhere = elsewhere[max(0, len(elsewhere)-30):]
		var cohort []CohortNode
		for i := range machines {
			if minute%int(g.every.Minutes()) == 0 {
				machines[i] = append(machines[i], machine{minute*g.pools + i, now, random.IntN(100) < p.percent, 1 + 4*random.Float64()})
			}
			if g.shrinks > 0 && minute%int(g.shrinks.Minutes()) == 8 && len(machines[i]) > 0 {
				machines[i] = machines[i][1:]
			}
			var nodes []Node
			for _, m := range machines[i] {
				n := p.observe("bad", m, now)
				if nodes = append(nodes, n); i == 0 && n.Name != "" {
					cohort = append(cohort, CohortNode{Version: "bad", Running: n.Running, Ready: n.Ready, Changed: n.Changed})
				}
			}
			joins[i] = Judge(now, time.Time{}, nodes, joins[i], Limits{})
			joins[i] = joins[i][max(0, len(joins[i])-64):]
		}
		f := Facts{Now: now, Pool: "workers", Current: "bad", Prior: "good", Since: noon, Others: 10, OthersReady: 10, Joins: joins[0]}
		neighbors := []Neighbor{{Version: "old", Joins: elsewhere}}
		for k := 1; k < g.pools; k++ {
			neighbors = append(neighbors, Neighbor{"bad", joins[k], true})
		}
		f.Meet(neighbors)
		for range 10 {
			cohort = append(cohort, CohortNode{Version: "good", Running: noon.AddDate(0, 0, -5), Ready: true, Changed: noon.AddDate(0, 0, -5)})
		}
		f.Cohorts = CohortsOf(now, "bad", cohort, Limits{})
		v := Decide(f)
		if v.State == Failing && r.alarmed == 0 {
			r.alarmed = minute
		}
		if v.Do == RollBack {
			r.built, r.back = minute/int(g.every.Minutes())+1, minute
			return r
		}
	}
	return r
}

// cell describes the results of some seeds by the worst of them.
func (g growth) cell(p failurePattern) string {
	const seeds = 3
	back, alarms, built, late, lateAlarm := 0, 0, 0, 0, 0
	for seed := range uint64(seeds) {
		r := g.play(p, seed)
		if r.back > 0 {
			back, built, late = back+1, max(built, r.built), max(late, r.back)
		}
		if r.alarmed > 0 {
			alarms, lateAlarm = alarms+1, max(lateAlarm, r.alarmed)
		}
	}
	switch {
	case back == seeds:
		return fmt.Sprintf("back after %d nodes, %d min", built, late)
	case alarms == seeds && back == 0:
		return fmt.Sprintf("alert, %d min", lateAlarm)
	case alarms == seeds:
		return fmt.Sprintf("alert, %d min; back in %d of %d", lateAlarm, back, seeds)
	case alarms > 0:
		return fmt.Sprintf("alert in %d of %d", alarms, seeds)
	}
	return "nothing"
}

func detections() string {
	growths := []growth{
		{"2 min", 2 * time.Minute, 1, 0, false}, {"7 min", 7 * time.Minute, 1, 0, false}, {"30 min", 30 * time.Minute, 1, 0, false},
		{"7 min, two pools", 7 * time.Minute, 2, 0, false}, {"7 min, shrinks", 7 * time.Minute, 1, 9 * time.Minute, false},
		{"7 min, alone", 7 * time.Minute, 1, 0, true},
	}
	b := strings.Builder{}
	b.WriteString("| nodes fail |")
	for _, g := range growths {
		b.WriteString(" " + g.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(growths)+1) + "\n")
	for _, p := range []failurePattern{
		{name: "never join", percent: 100, never: true}, {name: "after 15 min", percent: 100, unready: at(15)}, {name: "after 45 min", percent: 100, unready: at(45)},
		{name: "after 59 min", percent: 100, unready: at(59)}, {name: "after 61 min", percent: 100, unready: at(61)}, {name: "after 70 min", percent: 100, unready: at(70)},
		{name: "30 % never join", percent: 30, never: true}, {name: "30 % after 15 min", percent: 30, unready: at(15)}, {name: "50 % after 15 min", percent: 50, unready: at(15)},
	} {
		b.WriteString("| " + p.name + " |")
		for _, g := range growths {
			b.WriteString(" " + g.cell(p) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func falseAlarms() string {
	b := strings.Builder{}
	b.WriteString("| nodes | false alarms in calm weeks | in rough weeks | 100 % die at minute 61 | 50 % |\n|---|---|---|---|---|\n")
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a simulation that is the same in each run
	for _, size := range []int{3, 10, 30, 100, 600} {
		weeks := max(100, 1000/size)
		fmt.Fprintf(&b, "| %d |", size)
		for _, isRough := range []bool{false, true} {
			found := 0
			for i := range weeks {
				if alarm, _ := (&weekOf{size: size, chance: []float64{0.5, 5}[i%2], isRough: isRough, random: random}).play(); alarm {
					found++
				}
			}
			fmt.Fprintf(&b, " %d of %d |", found, weeks)
		}
		for _, bad := range []int{100, 50} {
			var found []time.Duration
			for range 10 {
				if alarm, after := (&weekOf{size: size, chance: 0.5, bad: bad, random: random}).play(); alarm {
					found = append(found, after)
				}
			}
			slices.Sort(found)
			fmt.Fprintf(&b, " %d of 10", len(found))
			if len(found) > 0 {
				fmt.Fprintf(&b, ", %.0f h", found[len(found)/2].Hours())
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestTableOfDetections compares the tables of the page with the simulation.
func TestTableOfDetections(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred simulated growths and weeks")
	}
	raw, err := os.ReadFile(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(raw), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the tables", tablePage)
	}
	want := before + tableBegin + "\n" + detections() + "\n" + falseAlarms() + "\n" + tableEnd + after
	if *writeTable {
		if err := os.WriteFile(tablePage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(raw) {
		t.Errorf("%s has other tables; write them with: go test ./internal/joinhealth -run TestTableOfDetections -args -write-table", tablePage)
	}
}
