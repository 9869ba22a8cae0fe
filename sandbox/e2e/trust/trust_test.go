package trust

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/probation"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/workload"
)

// TestProbation has one controller watch all of the pools, as in a cluster. First some of them get bad versions while it is
// killed again and again; then what fails is nothing that any version has done.
func TestProbation(t *testing.T) {
	install(t)
	healthy := &neighbour{ground: bareGround(t, "healthy")}
	healthy.watch()
	var away *ground
	c := run(t)
	t.Run("bad versions", func(t *testing.T) {
		for name, d := range map[string]disk.Defect{
			"crash":   {Kind: disk.CrashingDaemonSet, DaemonSet: workload.Namespace + "/" + workload.DaemonSet},
			"unready": {Kind: disk.NotReadyLater, After: scale * 3 * time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := newGround(t, name, d)
				g.goesBack(healthy)
				g.isCondemned(healthy)
				g.testBack(2)
			})
		}
		t.Run("nojoin", func(t *testing.T) {
			t.Parallel()
			testKilledAroundEachWrite(t, c, healthy)
		})
		t.Run("mostly", func(t *testing.T) {
			t.Parallel()
			testMostlyBad(t, healthy)
		})
		t.Run("innocent", func(t *testing.T) {
			t.Parallel()
			testThePriorFailsToo(t, healthy)
		})
		t.Run("slow", func(t *testing.T) {
			t.Parallel()
			testSlow(t, healthy)
		})
		t.Run("good", func(t *testing.T) {
			t.Parallel()
			away = newGround(t, "away", disk.Defect{Kind: disk.NoDefect})
		})
	})
	if away == nil {
		return
	}
	away.T = t
	t.Run("network of all nodes away", func(t *testing.T) { testNetworkAway(t, away) })
	t.Run("API server away", func(t *testing.T) { testAPIServerAway(t, c, away) })
	t.Run("network of new nodes away", func(t *testing.T) { testNewNodesAway(t, healthy, away) })
}

// install makes Kamino's objects and a workload.
func install(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(sandbox.Must(t, "kamino", "manifests")), 0o600); err != nil {
		t.Fatal(err)
	}
	sandbox.Must(t, "kubectl", "apply", "--server-side", "-f", file)
	sandbox.Must(t, "kubectl", "wait", "--for=condition=Established", "crd/prototypes.kamino.dev", "crd/prototypepolicies.kamino.dev")
	if err := workload.Apply(t.Context(), sandbox.Kube()); err != nil {
		t.Fatal(err)
	}
}

// goesBack: two nodes of the second version are enough, and they prove nothing yet.
func (g *ground) goesBack(healthy *neighbour) {
	g.Helper()
	began := time.Now()
	healthy.order(g, 2)
	g.eventually("it goes back", func() bool { return g.recipe() == g.first })
	g.Logf("pool %s went back %.0f s after it had been told to grow", g.pool, time.Since(began).Seconds())
	if n := len(g.built(g.second)); n != 2 {
		g.Errorf("%d nodes were built from the bad version until pool %s was back, want 2", n, g.pool)
	}
	if why := g.tags(g.second)[cloud.TagQuarantined]; why != "" {
		g.Errorf("version %s of pool %s is quarantined before anything is proven: %s", g.second, g.pool, why)
	}
}

// isCondemned: the next node tells.
func (g *ground) isCondemned(healthy *neighbour) {
	g.Helper()
	healthy.order(g, 1)
	g.eventually("the version is condemned", func() bool { return g.tags(g.second)[cloud.TagQuarantined] != "" })
	if why := g.tags(g.second)[cloud.TagQuarantined]; !strings.HasPrefix(why, "probation: ") || !strings.Contains(why, g.second) {
		g.Errorf("version %s of pool %s is quarantined for %q", g.second, g.pool, why)
	}
}

// testBack demands that the pool went back once, having built so many nodes of the bad version, and that its captures stand
// still until a person says that that will do.
func (g *ground) testBack(bad int) {
	g.Helper()
	if g.recipe() != g.first || len(g.built(g.second)) != bad {
		g.Errorf("pool %s names %s, and %d nodes were built from the bad version, want %d", g.pool, g.recipe(), len(g.built(g.second)), bad)
	}
	g.testBlameless(g.first)
	g.testUnharmed(1)
	g.eventually("its policy says so", func() bool { return g.trouble(v1alpha1.ConditionStalled) == "WentBack" })
	release := "`kamino release " + g.set + "`"
	if said := sandbox.Must(g.T, "kamino", "plan", g.set); !strings.Contains(said, release) {
		g.Errorf("the plan for pool %s does not ask for a person:\n%s", g.pool, said)
	}
	sandbox.Must(g.T, "kamino", "release", g.set)
	if said := sandbox.Must(g.T, "kamino", "plan", g.set); strings.Contains(said, release) {
		g.Errorf("the plan for pool %s asks for a person who has been there:\n%s", g.pool, said)
	}
	if g.tags(g.second)[cloud.TagQuarantined] == "" {
		g.Errorf("the bad version %s of pool %s is not quarantined any more", g.second, g.pool)
	}
}

// testKilledAroundEachWrite: the pool goes back once all the same, and each write is made once.
func testKilledAroundEachWrite(t *testing.T, c *controllers, healthy *neighbour) {
	g := newGround(t, "nojoin", disk.Defect{Kind: disk.NeverJoins})
	c.haunt(g)
	g.goesBack(healthy)
	g.isCondemned(healthy)
	g.testBack(2)
	want := []string{g.second, strings.ToLower(g.set), g.first, g.second}
	if sandboxtest.Told() == pool.AWS {
		want = slices.Insert(want, 1, withToken)
	}
	if writes := c.spare(g); !slices.Equal(writes, want) {
		t.Errorf("there were the writes %v, want %v", writes, want)
	}
}

// struck tells which of a pool's machines a defect strikes, those that are built next at the front.
func (g *ground) struck(d disk.Defect, next int) (all []bool) {
	for n := range next {
		all = append(all, d.Strikes(g.set+pad(len(g.machines())+n)))
	}
	return all
}

// pad is how scale sets number their machines.
func pad(n int) string {
	const digits = "0123456789"
	out := ""
	for range 6 {
		out = string(digits[n%len(digits)]) + out
		n /= len(digits)
	}
	return out
}

// testMostlyBad grows a pool from a version that seven machines in ten are bad of. The first one joins, and so it takes three
// in a row.
func testMostlyBad(t *testing.T, healthy *neighbour) {
	if sandboxtest.Told() == pool.AWS {
		t.Skip("nobody knows before what AWS will call a machine")
	}
	g := newGround(t, "mostly", disk.Defect{Kind: disk.NoDefect})
	d := disk.Defect{Kind: disk.NeverJoins, Share: 70}
	for !slices.Equal(g.struck(d, 4), []bool{false, true, true, true}) {
		d.Seed++
	}
	g.spoil(g.second, d)
	healthy.order(g, 2)
	g.eventually("one has joined and one has not", func() bool { p := g.probation(); return p.Joined == 1 && p.Failed == 1 })
	if got := g.recipe(); got != g.second {
		t.Errorf("pool %s names %s after one node that did not join", g.pool, got)
	}
	healthy.order(g, 2)
	g.eventually("it goes back", func() bool { return g.recipe() == g.first })
	if n := len(g.built(g.second)); n != 4 {
		t.Errorf("%d nodes were built from the version, want 4", n)
	}
	g.testBlameless(g.first)
	g.testUnharmed(1)
}

// testThePriorFailsToo: what keeps the nodes from joining is not the version, and it is suspected no more. The pool does not
// go to and fro.
func testThePriorFailsToo(t *testing.T, healthy *neighbour) {
	g := newGround(t, "innocent", disk.Defect{Kind: disk.NeverJoins})
	g.goesBack(healthy)
	if g.tags(g.second)[cloud.TagSuspect] == "" {
		t.Errorf("version %s of pool %s is not suspect", g.second, g.pool)
	}
	g.spoil(g.first, disk.Defect{Kind: disk.NeverJoins})
	healthy.order(g, 2)
	g.eventually("suspicion ends", func() bool { return g.tags(g.second)[cloud.TagSuspect] == "" })
	if why := g.tags(g.second)[cloud.TagQuarantined]; why != "" {
		t.Errorf("version %s of pool %s is quarantined: %s", g.second, g.pool, why)
	}
	frozen := func(state string) bool {
		return state == string(probation.NoPrior) || state == string(probation.TooSoon)
	}
	g.eventually("it is said that the pool stays", func() bool { return frozen(g.probation().State) && frozen(g.trouble(v1alpha1.ConditionDegraded)) })
	if g.recipe() != g.first {
		t.Errorf("pool %s names %s", g.pool, g.recipe())
	}
	g.testUnharmed(1)
}

// testSlow: nodes that take their time, though not more than they are given, are no reason.
func testSlow(t *testing.T, healthy *neighbour) {
	late := joinTimeout / 2
	g := newGround(t, "slow", disk.Defect{Kind: disk.JoinsLate, After: scale * late})
	healthy.order(g, 2)
	g.eventually("they have joined", func() bool { p := g.probation(); return p.Joined == 2 && p.Failed == 0 })
	if p := g.probation(); p.MedianReady == nil || p.MedianReady.Duration < late {
		t.Errorf("the nodes of pool %s were not slow: %+v", g.pool, p)
	}
	if g.recipe() != g.second || g.trouble(v1alpha1.ConditionDegraded) != "" {
		t.Errorf("pool %s names %s: %s", g.pool, g.recipe(), g.said())
	}
	g.testBlameless(g.second)
	g.testUnharmed(0)
}

// patience is longer than a node of a bad version lasts.
const patience = joinTimeout + 3*unreadyTimeout

// outage begins one, which ends with the test at last.
func outage(t *testing.T, what kubelet.Outage) (end func()) {
	t.Helper()
	order := func(what kubelet.Outage) {
		if err := sandbox.Outage(context.WithoutCancel(t.Context()), control.Outage{What: what}); err != nil {
			t.Error(err)
		}
	}
	order(what)
	t.Cleanup(func() { order(kubelet.NoOutage) })
	return func() { order(kubelet.NoOutage) }
}

// testNetworkAway: while the network of all nodes is away nothing is gone back from, and neither is it afterwards for what
// happened then.
func testNetworkAway(t *testing.T, g *ground) {
	end, joined := outage(t, kubelet.EveryNode), g.probation().Joined
	g.order(2)
	g.lasts(patience, g.second)
	end()
	g.eventually("its nodes have joined", func() bool { return g.probation().Joined == joined+2 })
	g.staysGood()
}

// testAPIServerAway: nodes register long after their time, because nobody could, and the controller saw nothing of it.
func testAPIServerAway(t *testing.T, c *controllers, g *ground) {
	g.spoil(g.second, disk.Defect{Kind: disk.JoinsLate, After: scale * patience})
	defer g.spoil(g.second, disk.Defect{Kind: disk.NoDefect})
	joined := g.probation().Joined
	c.cut(true)
	g.order(2)
	g.lasts(patience, g.second)
	c.cut(false)
	g.eventually("its nodes have joined", func() bool { return g.probation().Joined == joined+2 })
	g.staysGood()
}

// testNewNodesAway: no new node of any pool joins, while those that were there do well. That is said, and a person is asked; and
// once it is over nothing is gone back from for what happened then.
func testNewNodesAway(t *testing.T, healthy *neighbour, g *ground) {
	end, joined := outage(t, kubelet.NewNodes), g.probation().Joined
	healthy.order(g, 3) // in a row, as others of the version have joined
	g.eventually("it is said that nodes join nowhere", func() bool {
		return g.probation().State == string(probation.Everywhere) && g.trouble(v1alpha1.ConditionDegraded) == string(probation.Everywhere)
	})
	end()
	healthy.order(g, 1)
	g.eventually("the next node has joined", func() bool { return g.probation().Joined == joined+1 })
	g.staysGood()
	healthy.order(g, 2)
	g.eventually("nobody is asked any more", func() bool { return g.probation().Joined == joined+3 && g.trouble(v1alpha1.ConditionDegraded) == "" })
	g.staysGood()
}

// staysGood demands that the version stays, and is blamed for nothing, whatever happened.
func (g *ground) staysGood() {
	g.Helper()
	g.lasts(2*unreadyTimeout, g.second)
	for _, version := range []string{g.first, g.second} {
		g.testBlameless(version)
	}
	g.testUnharmed(0)
}
