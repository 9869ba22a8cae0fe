package joinhealth

import (
	"fmt"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// decline describes how every node of a version fails after the node was Ready at minute three.
type decline struct {
	name string
	// unready and lacking return the minute at which node n loses Ready or has an unhealthy DaemonSet; nil for never.
	unready, lacking func(n int) float64
	// judged is the age in minutes at which the slowest node has failed, with the confirming second look.
	judged float64
}

func at(minutes float64) func(int) float64 { return func(int) float64 { return minutes } }

var declines = []decline{
	{"not Ready after 20 min", at(20), nil, 26},
	{"not Ready after 40 min", at(40), nil, 46},
	{"DaemonSet fails at minute 58", nil, at(58), 75},
	{"not Ready after 10 to 50 min", func(n int) float64 { return float64(10 + n*17%41) }, nil, 56},
}

// node returns node n as a look sees the node.
func (d decline) node(n int, running, now time.Time) Node {
	seen := Node{Instance: cloud.InstanceID(fmt.Sprintf("i%04d", n)), Name: fmt.Sprintf("n%04d", n), Version: "bad", Running: running}
	after := func(m float64) time.Time { return running.Add(time.Duration(m * float64(time.Minute))) }
	if ready := after(3); !now.Before(ready) {
		seen.Ready, seen.Changed = true, ready
	}
	if d.unready != nil {
		if gone := after(d.unready(n)); !now.Before(gone) {
			seen.Ready, seen.Changed = false, gone
		}
	}
	if d.lacking != nil {
		if lost := after(d.lacking(n)); !now.Before(lost) {
			seen.UnhealthyDaemonSet, seen.UnhealthySince = "shop/agent", lost
		}
	}
	return seen
}

// TestAGrowingPoolGoesBack from a version whose nodes all fail after Ready, at any speed of growth. Nodes of other
// pools join and stay.
func TestAGrowingPoolGoesBack(t *testing.T) {
	for _, d := range declines {
		for _, minutes := range []int{3, 5, 10, 15, 20} {
			every := time.Duration(minutes) * time.Minute
			t.Run(fmt.Sprintf("%s, a node every %s", d.name, every), func(t *testing.T) {
				// Two nodes fail, or three in a row if one has joined. One more node is ordered at the time.
				most := int(time.Duration(d.judged*float64(time.Minute))/every) + laterFailures + 1
				if built := d.grow(every, 24*time.Hour); built == 0 || built > most {
					t.Errorf("it went back after %d nodes (0: never in a day), want %d at most", built, most)
				} else {
					t.Logf("%d nodes", built)
				}
			})
		}
	}
}

// grow returns the number of nodes until the pool goes back; 0 for never.
func (d decline) grow(every, most time.Duration) int {
	f := Facts{Pool: "workers", Current: "bad", Prior: "good", Since: noon, Others: 10, OthersReady: 10}
	var running []time.Time
	for passed := time.Duration(0); passed < most; passed += time.Minute {
		f.Now = noon.Add(passed)
		if passed%every == 0 {
			running = append(running, f.Now)
		}
		if passed%(5*time.Minute) == 0 {
			f.Elsewhere = append(f.Elsewhere, Join{Version: "x", Running: f.Now.Add(-4 * time.Minute), Outcome: Joined, Took: 3 * time.Minute})
		}
		var nodes []Node
		for n, began := range running {
			nodes = append(nodes, d.node(n, began, f.Now))
		}
		f.Joins = Judge(f.Now, time.Time{}, nodes, f.Joins, Limits{})
		if Decide(f).Do == GoBack {
			return len(running)
		}
	}
	return 0
}

// TestAYoungNodeSettlesNothing: joined nodes of the older version confirm the suspect only if older than the suspect's
// nodes at their failure.
func TestAYoungNodeSettlesNothing(t *testing.T) {
	for _, test := range []struct {
		minutes float64
		word    string
		want    Action
	}{{10, "J", Nothing}, {20, "J", Nothing}, {22, "J", ConfirmBad}, {10, "F", ClearSuspect}} {
		f := pool("")
		f.Current, f.Suspect, f.WentBack = f.Prior, f.Current, noon.Add(-time.Hour)
		f.Joins = joined(f.Current, test.word, noon.Add(-time.Duration((test.minutes+1)*float64(time.Minute))))
		for _, born := range []float64{-200, -190} {
			f.Joins = append(f.Joins, Join{Node: "s", Version: f.Suspect, Running: minute(born), Outcome: Failed, OverdueSince: minute(born + 20)})
		}
		if got := Decide(f); got.Do != test.want || got.Do == Nothing && got.State != Suspected {
			t.Errorf("%s, %g minutes old: %s, %s: %s", test.word, test.minutes, got.Do, got.State, got.Message)
		}
	}
}
