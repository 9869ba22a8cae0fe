package joinhealth

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ago returns the time m minutes before noon.
func ago(minutes float64) time.Time {
	return noon.Add(-time.Duration(minutes * float64(time.Minute)))
}

// TestJudge has a row for each state of a node at a look. The previous look is five minutes old.
func TestJudge(t *testing.T) {
	late := Join{Version: "v", Running: ago(30), Outcome: Waiting, OverdueSince: ago(5)}
	for name, test := range map[string]struct {
		node          Node
		was           Join
		observedSince time.Time
		outcome       Outcome
		why           string
		took          time.Duration
	}{
		"just made":                 {node: Node{}, outcome: Waiting},
		"on its way":                {node: Node{Running: ago(10)}, outcome: Waiting},
		"late for the first time":   {node: Node{Running: ago(30)}, outcome: Waiting},
		"late again":                {node: Node{Running: ago(30)}, was: late, outcome: Failed, why: "the instance has run for 30 min without a Node"},
		"late again, too soon":      {node: Node{Running: ago(30)}, was: Join{Version: "v", Running: ago(30), OverdueSince: ago(4)}, outcome: Waiting},
		"late, and the cluster was": {node: Node{Running: ago(30)}, was: late, observedSince: ago(4), outcome: Waiting},
		"a Node that is not Ready": {node: Node{Name: "n", Running: ago(30), Changed: ago(28)}, was: late, outcome: Failed,
			why: "the instance has run for 30 min, and the Node is not Ready"},
		"late, and then there": {node: Node{Name: "n", Running: ago(30), Ready: true, Changed: ago(3)}, was: late, outcome: Joined,
			took: 27 * time.Minute},
		"Ready":                        {node: Node{Name: "n", Running: ago(5), Ready: true, Changed: ago(3)}, outcome: Joined, took: 2 * time.Minute},
		"Ready for a moment":           {node: Node{Name: "n", Running: ago(5), Ready: true, Changed: ago(1)}, outcome: Waiting, took: 4 * time.Minute},
		"Ready, since an unknown time": {node: Node{Name: "n", Running: ago(5), Ready: true}, outcome: Waiting},
		"was Ready, and is not": {node: Node{Name: "n", Running: ago(30), Changed: ago(6)},
			was: Join{Version: "v", Running: ago(30), Outcome: Joined, Took: time.Minute, OverdueSince: ago(6)}, outcome: Failed,
			why: "the instance has run for 30 min, and the Node is not Ready", took: time.Minute},
		"not Ready after two hours": {node: Node{Name: "n", Running: ago(200), Changed: ago(80)}, outcome: Uncounted,
			why: "became not Ready long after the join"},
		"joined hours ago, not Ready": {node: Node{Name: "n", Running: ago(200), Changed: ago(6)},
			was: Join{Version: "v", Running: ago(200), Outcome: Joined}, outcome: Joined},
		"cordoned": {node: Node{Name: "n", Running: ago(30), ExcludedReason: "is cordoned"}, outcome: Uncounted, why: "is cordoned"},
		"joined, then cordoned": {node: Node{Name: "n", Running: ago(30), ExcludedReason: "is cordoned"},
			was: Join{Version: "v", Running: ago(30), Outcome: Joined}, outcome: Joined},
		"failed, then there": {node: Node{Name: "n", Running: ago(30), Ready: true, Changed: ago(9)},
			was: Join{Version: "v", Running: ago(30), Outcome: Failed, Why: "of old"}, outcome: Failed, why: "of old"},
		"rebuilt after a failure": {node: Node{Name: "n", Running: ago(5), Ready: true, Changed: ago(3)},
			was: Join{Version: "v", Running: ago(90), Outcome: Failed, Why: "of old"}, outcome: Joined, took: 2 * time.Minute},
		"rebuilt from another": {node: Node{Name: "n", Running: ago(5), Ready: true, Changed: ago(3)},
			was: Join{Version: "w", Running: ago(5), Outcome: Failed, Why: "of old"}, outcome: Joined, took: 2 * time.Minute},
		"without a DaemonSet": {node: Node{Name: "n", Running: ago(30), Ready: true, Changed: ago(28), UnhealthyDaemonSet: "kube-system/cni",
			UnhealthySince: ago(11)}, was: late, outcome: Failed,
			why: "DaemonSet kube-system/cni has not been Ready on the node for 11 min, but is Ready on other nodes", took: 2 * time.Minute},
		"without one for a moment": {node: Node{Name: "n", Running: ago(30), Ready: true, Changed: ago(28), UnhealthyDaemonSet: "kube-system/cni",
			UnhealthySince: ago(9)}, was: late, outcome: Waiting, took: 2 * time.Minute},
		"without one, hours later": {node: Node{Name: "n", Running: ago(200), Ready: true, Changed: ago(190),
			UnhealthyDaemonSet: "kube-system/cni", UnhealthySince: ago(11)}, outcome: Joined, took: 10 * time.Minute},
		"differs from its peers": {node: Node{Name: "n", Running: ago(30), Ready: true, Changed: ago(28), Difference: "1 of 110 pods"},
			outcome: Joined, why: "the node differs from its peers: 1 of 110 pods", took: 2 * time.Minute},
		"an image of another owner's":  {node: Node{Name: "n", Running: ago(5), Ready: true, Changed: ago(3)}, outcome: Joined, took: 2 * time.Minute},
		"clocks that differ a little":  {node: Node{Name: "n", Running: ago(4), Ready: true, Changed: ago(5)}, outcome: Joined},
		"the cluster has just come up": {node: Node{Running: ago(30)}, observedSince: ago(10), outcome: Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			test.node.Instance, test.node.Version, test.was.Instance = "i", "v", "i"
			var before []Join
			if test.was.Version != "" {
				before = []Join{test.was}
			}
			got := Judge(noon, test.observedSince, []Node{test.node}, before, Limits{})
			if len(got) != 1 || got[0].Outcome != test.outcome || got[0].Why != test.why || got[0].Took != test.took {
				t.Errorf("%+v\nwant %s %q after %s", got, test.outcome, test.why, test.took)
			}
		})
	}
}

// TestADifferentNode fails only if the limits say so, and not by a single look.
func TestADifferentNode(t *testing.T) {
	n := Node{Instance: "i", Name: "n", Version: "v", Running: noon, Ready: true, Changed: minute(2), Difference: "1 of 110 pods"}
	for fails, want := range map[bool][]Outcome{false: {Joined, Joined}, true: {Waiting, Failed}} {
		var joins []Join
		for i, m := range []float64{5, 10} {
			joins = Judge(minute(m), time.Time{}, []Node{n}, joins, Limits{FailsDifferent: fails})
			if got := joins[0]; got.Outcome != want[i] || got.Outcome != Waiting && got.Why != "the node differs from its peers: 1 of 110 pods" {
				t.Errorf("fails %t, minute %g: %+v", fails, m, got)
			}
		}
	}
}

// TestLosses: a node fails with the third loss of health within the first hour. A loss between two looks, and a DaemonSet
// that becomes unhealthy, are losses. Losses in a time without an observation of the cluster are not.
func TestLosses(t *testing.T) {
	healthy := func(changed float64) Node {
		return Node{Instance: "i", Name: "n", Version: "v", Running: noon, Ready: true, Changed: minute(changed)}
	}
	unready := func(changed float64) Node { n := healthy(changed); n.Ready = false; return n }
	lacking := func(since float64) Node {
		n := healthy(2)
		n.UnhealthyDaemonSet, n.UnhealthySince = "shop/agent", minute(since)
		return n
	}
	for name, test := range map[string]struct {
		looks    []Node // one every five minutes, from minute five on
		observed float64
		losses   int
		outcome  Outcome
	}{
		"always healthy":       {[]Node{healthy(2), healthy(2)}, 0, 0, Joined},
		"seen":                 {[]Node{healthy(2), unready(9), healthy(11), unready(19), healthy(22), unready(29)}, 0, 3, Failed},
		"between looks":        {[]Node{healthy(2), healthy(8), healthy(13), healthy(18)}, 0, 3, Failed},
		"two":                  {[]Node{healthy(2), unready(9), healthy(11), healthy(18)}, 0, 2, Joined},
		"never healthy before": {[]Node{unready(1), unready(1), healthy(12), healthy(12)}, 0, 0, Joined},
		"a DaemonSet":          {[]Node{healthy(2), lacking(9), healthy(2), lacking(19), healthy(2), lacking(29)}, 0, 3, Failed},
		"in an outage":         {[]Node{healthy(2), healthy(8), healthy(13), healthy(18)}, 14, 1, Joined},
	} {
		var joins []Join
		for i, look := range test.looks {
			joins = Judge(minute(float64(5*i+5)), minute(test.observed), []Node{look}, joins, Limits{})
		}
		if got := joins[0]; got.Losses != test.losses || got.Outcome != test.outcome {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRemovedInstanceIsKept: a removed instance is kept, for example an instance that an autoscaler removed before the join.
func TestRemovedInstanceIsKept(t *testing.T) {
	before := []Join{
		{Instance: "f", Version: "v", Running: ago(60), Outcome: Failed, Why: "of old"},
		{Instance: "j", Version: "v", Running: ago(50), Outcome: Joined, Took: time.Minute},
		{Instance: "n", Version: "v", Running: ago(20), Outcome: Waiting},
		{Instance: "r", Version: "v", Running: ago(19), Outcome: Waiting, Took: time.Minute},
		{Instance: "w", Version: "v", Running: ago(10), Outcome: Waiting},
		{Instance: "x", Version: "v", Running: ago(9), Outcome: Uncounted, Why: "is cordoned"},
	}
	const unseen = "is gone, and the result of the join is unknown"
	want := append([]Join(nil), before...)
	want[2].Outcome, want[2].Why, want[2].OverdueSince = Failed, "the instance was removed, and the node was never Ready", ago(6)
	want[3].Outcome, want[3].Why = Uncounted, unseen
	want[4].Outcome, want[4].Why = Uncounted, unseen
	if diff := cmp.Diff(want, Judge(noon, time.Time{}, nil, before, Limits{})); diff != "" {
		t.Error(diff)
	}
	want[2].Outcome, want[2].Why, want[2].OverdueSince = Uncounted, unseen, time.Time{}
	if diff := cmp.Diff(want, Judge(noon, ago(14), nil, before, Limits{})); diff != "" {
		t.Errorf("after an outage: %s", diff)
	}
}

// life is the life of a node, in minutes after the start of the instance; negative for never.
type life struct {
	ready, unready, back float64
}

// at returns the node as a look sees the node.
func (l life) at(id cloud.InstanceID, running, now time.Time) Node {
	n := Node{Instance: id, Name: string(id), Version: "v", Running: running, Changed: running.Add(20 * time.Second)}
	for _, change := range []struct {
		minutes float64
		ready   bool
	}{{l.ready, true}, {l.unready, false}, {l.back, true}} {
		when := running.Add(time.Duration(change.minutes * float64(time.Minute)))
		if change.minutes >= 0 && !now.Before(when) {
			n.Ready, n.Changed = change.ready, when
		}
	}
	return n
}

// lives lists lives with their outcomes.
var lives = map[string]struct {
	life
	outcome Outcome
}{
	"soon":            {life{3, -1, -1}, Joined},
	"nearly late":     {life{14.5, -1, -1}, Joined},
	"never":           {life{-1, -1, -1}, Failed},
	"late":            {life{40, -1, -1}, Failed},
	"falls at once":   {life{2, 4, -1}, Failed},
	"falls in time":   {life{2, 50, -1}, Failed},
	"falls later":     {life{2, 80, -1}, Joined},
	"a moment away":   {life{2, 20, 21}, Joined},
	"away and back":   {life{2, 10, 14}, Joined},
	"long away, back": {life{2, 10, 39}, Failed},
}

// TestLives follows nodes look by look, with a restart without state at any look. The outcome is the same, but later,
// while the cause is visible.
func TestLives(t *testing.T) {
	for name, test := range lives {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				every := time.Duration(rapid.IntRange(20, 150).Draw(t, "seconds between looks")) * time.Second
				forgets := -1
				if name != "late" && name != "long away, back" { // after a restart, the cause is no longer visible
					forgets = rapid.IntRange(-1, 30).Draw(t, "forgets at look")
				}
				var known []Join
				for look := 0; time.Duration(look)*every < 3*time.Hour; look++ {
					if look == forgets {
						known = nil
					}
					now := noon.Add(time.Duration(look) * every)
					known = Judge(now, time.Time{}, []Node{test.at("n", noon, now)}, known, Limits{})
					if got := known[0]; got.Outcome == Failed && got.Why == "" || got.Outcome == Joined && got.Took <= 0 {
						t.Fatalf("look %d: %+v", look, got)
					}
				}
				if known[0].Outcome != test.outcome {
					t.Fatalf("%+v, want %s", known[0], test.outcome)
				}
			})
		})
	}
}

// TestOutageIsNoFailure: during an outage of the cluster no node fails, and after the outage nodes get their
// full time.
func TestOutageIsNoFailure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		began := rapid.IntRange(0, 14).Draw(t, "outage from")
		lasts := rapid.IntRange(1, 120).Draw(t, "for")
		over := noon.Add(time.Duration(began+lasts) * time.Minute)
		var known []Join
		for minute := range 240 {
			now := noon.Add(time.Duration(minute) * time.Minute)
			if minute >= began && minute < began+lasts && rapid.Bool().Draw(t, fmt.Sprintf("unread at %d", minute)) {
				continue // no look is possible
			}
			observedSince := time.Time{}
			switch {
			case minute >= began && now.Before(over):
				observedSince = now
			case minute >= began:
				observedSince = over
			}
			// The node would have joined at the start of the outage, and joins three minutes after the end.
			n := life{ready: float64(began + lasts + 3), unready: -1, back: -1}.at("n", noon, now)
			known = Judge(now, observedSince, []Node{n}, known, Limits{})
			if known[0].Outcome == Failed {
				t.Fatalf("failed at minute %d: %+v", minute, known[0])
			}
		}
		if known[0].Outcome != Joined {
			t.Fatalf("%+v", known[0])
		}
	})
}

// TestOrder: joins are sorted by the start of the instance, in any order of the cloud, each once.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 8).Draw(t, "minutes")
		var nodes []Node
		for i, m := range minutes {
			nodes = append(nodes, Node{Instance: cloud.InstanceID(fmt.Sprint(i)), Version: "v", Running: ago(float64(m))})
		}
		first := Judge(noon, time.Time{}, nodes, nil, Limits{})
		again := Judge(noon, time.Time{}, nil, Judge(noon, time.Time{}, nodes, first, Limits{}), Limits{})
		if len(first) != len(nodes) || len(again) != len(nodes) {
			t.Fatalf("%d and %d joins of %d nodes", len(first), len(again), len(nodes))
		}
		for i := 1; i < len(first); i++ {
			if first[i].Running.Before(first[i-1].Running) {
				t.Fatalf("%+v", first)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	want := Limits{Join: 14 * time.Minute, Settle: 2 * time.Minute, Unready: 280 * time.Second, Watch: time.Hour, Daemons: 560 * time.Second}
	if diff := cmp.Diff(want, Limits{Join: -1}.Defaulted()); diff != "" {
		t.Error(diff)
	}
	want.Join, want.Settle, want.Unready, want.Daemons = time.Minute, 20*time.Second, 20*time.Second, 40*time.Second
	if diff := cmp.Diff(want, Limits{Join: time.Minute}.Defaulted()); diff != "" {
		t.Error(diff)
	}
}
