package trust

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/workload"
)

// TestBadVersions rolls bad versions out to three pools. Each pool must roll back to the previous version, once.
// The controller of all pools is killed at each write for one of the pools.
func TestBadVersions(t *testing.T) {
	sandbox.Install(t)
	if err := workload.Apply(t.Context(), sandbox.Kube()); err != nil {
		t.Fatal(err)
	}
	healthy := &control{env: newPool(t, "healthy")}
	healthy.applyPolicy()
	controllers := startControllers(t)
	for name, defect := range map[string]disk.Defect{
		"crash":   {Kind: disk.CrashingDaemonSet, DaemonSet: workload.Namespace + "/" + workload.DaemonSet},
		"unready": {Kind: disk.NotReadyLater, After: scale * 3 * time.Second},
		"nojoin":  {Kind: disk.NeverJoins},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, name, defect)
			if defect.Kind != disk.NeverJoins {
				e.testGoesBack(healthy)
				return
			}
			controllers.killAround(e)
			e.testGoesBack(healthy)
			want := []string{e.second, strings.ToLower(e.Group), e.first, e.second}
			if sandboxtest.CurrentCloud() == pool.AWS {
				want = slices.Insert(want, 1, createTemplateVersion)
			}
			if writes := controllers.stopKilling(e); !slices.Equal(writes, want) {
				t.Errorf("there were the writes %v, want %v", writes, want)
			}
		})
	}
}

// testGoesBack adds two nodes of the bad version, so the pool must roll back. The next node proves that the version
// is bad. Then captures wait until a user releases the pool.
func (e *env) testGoesBack(healthy *control) {
	e.Helper()
	healthy.addNodes(e, 2)
	e.eventually("it goes back", func() bool { return e.NextVersion() == e.first })
	if why := e.Tags(e.second)[cloud.TagQuarantined]; why != "" {
		e.Errorf("version %s of pool %s is quarantined before anything is proven: %s", e.second, e.Pool, why)
	}
	healthy.addNodes(e, 1)
	e.eventually("the version is quarantined", func() bool { return e.Tags(e.second)[cloud.TagQuarantined] != "" })
	if why := e.Tags(e.second)[cloud.TagQuarantined]; !strings.HasPrefix(why, "join health: ") || !strings.Contains(why, e.second) {
		e.Errorf("version %s of pool %s is quarantined for %q", e.second, e.Pool, why)
	}
	if bad := e.countBuilt(e.second); e.NextVersion() != e.first || bad != 2 {
		e.Errorf("pool %s names %s, and %d nodes were built from the bad version, want 2", e.Pool, e.NextVersion(), bad)
	}
	e.assertBlameless(e.first)
	e.assertUntouched(1)
	e.eventually("its policy is stalled", func() bool { return e.stalledFor() == "RolledBack" })
	acknowledge := "`kamino acknowledge " + e.Group + "`"
	if plan := sandbox.Must(e.T, "kamino", "plan", e.Group); !strings.Contains(plan, acknowledge) {
		e.Errorf("the plan for pool %s does not ask for an acknowledgement:\n%s", e.Pool, plan)
	}
	sandbox.Must(e.T, "kamino", "acknowledge", e.Group)
	if plan := sandbox.Must(e.T, "kamino", "plan", e.Group); strings.Contains(plan, acknowledge) {
		e.Errorf("the plan for pool %s still asks for an acknowledgement:\n%s", e.Pool, plan)
	}
	if e.Tags(e.second)[cloud.TagQuarantined] == "" {
		e.Errorf("the bad version %s of pool %s is not quarantined any more", e.second, e.Pool)
	}
}

// TestAPIServerAway disconnects the controller from the API server while nodes of a good version join, later than
// their limit. They count as joined, because the controller could not see them.
func TestAPIServerAway(t *testing.T) {
	sandbox.Install(t)
	e := newEnv(t, "away", disk.Defect{Kind: disk.JoinsLate, After: scale * (joinTimeout + 3*unreadyTimeout)})
	controllers := startControllers(t)
	e.eventually("the policy watches the version", func() bool { return e.joinHealth().Version == e.second })
	controllers.cutAPIServer()
	e.addNodes(2)
	e.eventually("the nodes have joined", func() bool { return len(e.State().Ready) == 4 })
	controllers.restoreAPIServer()
	e.eventually("the policy has seen them", func() bool { return e.joinHealth().Joined == 2 })
	if next := e.NextVersion(); next != e.second {
		t.Errorf("pool %s names %s", e.Pool, next)
	}
	for _, version := range []string{e.first, e.second} {
		e.assertBlameless(version)
	}
	e.assertUntouched(0)
}
