package joinhealth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// failurePattern describes how the nodes of a version fail.
type failurePattern struct {
	name string
	// percent of the nodes fail.
	percent int
	// never: the instance has no Node, and the autoscaler replaces the instance after 15 minutes.
	never bool
	// unready and lacking return the minute at which node n loses Ready or has an unhealthy DaemonSet; nil for never.
	unready, lacking func(n int) float64
	// up and down are the minutes that a flapping node is Ready and not Ready.
	up, down float64
}

func at(minutes float64) func(int) float64 { return func(int) float64 { return minutes } }

var declines = []failurePattern{
	{name: "never joins", percent: 100, never: true},
	{name: "70 % never join", percent: 70, never: true},
	{name: "not Ready after 20 min", percent: 100, unready: at(20)},
	{name: "not Ready after 40 min", percent: 100, unready: at(40)},
	{name: "not Ready after 10 to 50 min", percent: 100, unready: func(n int) float64 { return float64(10 + n*17%41) }},
	{name: "DaemonSet fails at minute 58", percent: 100, lacking: at(58)},
	{name: "Ready 3 min, not Ready 3 min", percent: 100, up: 3, down: 3},
	{name: "Ready 150 s, not Ready 45 s", percent: 100, up: 2.5, down: 0.75},
}

// machine is an instance of the simulation.
type machine struct {
	n       int
	running time.Time
	// bad: the node fails as the version's decline says.
	bad bool
	// ready is the minute at which the node becomes Ready.
	ready float64
}

// observe returns a machine as a look sees the machine.
func (d failurePattern) observe(pool string, m machine, now time.Time) Node {
	seen := Node{Instance: cloud.InstanceID(fmt.Sprintf("%s%04d", pool, m.n)), Version: "good", Running: m.running}
	if pool == "bad" {
		seen.Version = "bad"
	}
	if m.bad && d.never {
		return seen
	}
	seen.Name = string(seen.Instance)
	after := func(minutes float64) time.Time { return m.running.Add(time.Duration(minutes * float64(time.Minute))) }
	turn := func(minutes float64, ready bool) {
		if when := after(minutes); !now.Before(when) {
			seen.Ready, seen.Changed = ready, when
		}
	}
	turn(m.ready, true)
	switch {
	case !m.bad:
	case d.unready != nil:
		turn(d.unready(m.n), false)
	case d.lacking != nil:
		if lost := after(d.lacking(m.n)); !now.Before(lost) {
			seen.UnhealthyDaemonSet, seen.UnhealthySince = "shop/agent", lost
		}
	case d.up > 0:
		for t := m.ready + d.up; !now.Before(after(t)); t += d.up + d.down {
			turn(t, false)
			turn(t+d.down, true)
		}
	}
	return seen
}

// grow returns the number of nodes of the bad version until the pool goes back; 0 for never in a day. Two other pools
// get a node about every 20 minutes each.
func (d failurePattern) grow(every time.Duration, seed uint64) int {
	random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a simulation that is the same in each run
	f := Facts{Pool: "workers", Current: "bad", Prior: "good", Since: noon, Others: 10, OthersReady: 10}
	var bad, others []machine
	built, owed := 0, 0
	order := func() {
		built++
		bad = append(bad, machine{built, f.Now, random.IntN(100) < d.percent, 1 + 4*random.Float64()})
	}
	for passed := time.Duration(0); passed < 24*time.Hour; passed += time.Minute {
		f.Now = noon.Add(passed)
		if passed%every == 0 {
			order()
		}
		bad = slices.DeleteFunc(bad, func(m machine) bool {
			isLost := d.never && m.bad && f.Now.Sub(m.running) >= 15*time.Minute
			if isLost {
				owed++
			}
			return isLost
		})
		if passed%(5*time.Minute) == 0 { // the autoscaler's pause after a failure
			for ; owed > 0; owed-- {
				order()
			}
		}
		if random.IntN(10) == 0 {
			others = append(others, machine{len(others), f.Now, false, 1 + 4*random.Float64()})
		}
		var nodes, elsewhere []Node
		for _, m := range bad {
			nodes = append(nodes, d.observe("bad", m, f.Now))
		}
		for _, m := range others {
			elsewhere = append(elsewhere, d.observe("other", m, f.Now))
		}
		f.Joins, f.Elsewhere = Judge(f.Now, time.Time{}, nodes, f.Joins, Limits{}), Judge(f.Now, time.Time{}, elsewhere, f.Elsewhere, Limits{})
		if Decide(f).Do == RollBack {
			return built
		}
	}
	return 0
}

// TestGrowingPoolIsRolledBack from every bad version, at any speed of growth.
func TestGrowingPoolIsRolledBack(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 2
	}
	for _, d := range declines {
		for _, minutes := range []int{3, 5, 10, 15, 20, 30, 60} {
			t.Run(fmt.Sprintf("%s, a node every %d min", d.name, minutes), func(t *testing.T) {
				var built []int
				for seed := range seeds {
					n := d.grow(time.Duration(minutes)*time.Minute, uint64(seed))
					if n == 0 {
						t.Errorf("seed %d: the pool never rolled back in a day", seed)
					}
					built = append(built, n)
				}
				slices.Sort(built)
				t.Logf("nodes built: median %d, worst %d", built[len(built)/2], built[len(built)-1])
			})
		}
	}
}
