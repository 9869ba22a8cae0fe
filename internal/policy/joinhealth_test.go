package policy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// promotedPool is a stage with a pool after a promotion, and another pool.
type promotedPool struct {
	*testEnv
	pool      cloud.PoolID
	good, bad string
	grown     int
}

func newTrust(t *testing.T, change func(*v1alpha1.PrototypePolicySpec)) *promotedPool {
	return trustOn(newTestEnv(t), change)
}

// trustInMemory is a trust with objects in memory.
func trustInMemory(t *testing.T) *promotedPool {
	s := newTestEnv(t)
	s.inMemory()
	return trustOn(s, nil)
}

func trustOn(on *testEnv, change func(*v1alpha1.PrototypePolicySpec)) *promotedPool {
	s := &promotedPool{testEnv: on}
	s.pool = s.testEnv.pool("pool1", 4, 3)
	s.testEnv.pool("pool2", 4, 3)
	s.good, s.bad = imageversion.Of(s.clock.Now().AddDate(0, 0, -3)), imageversion.Of(s.clock.Now().AddDate(0, 0, -1))
	s.version(s.pool, s.clock.Now().AddDate(0, 0, -1), nil)
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+s.bad)
	s.policy("all", func(spec *v1alpha1.PrototypePolicySpec) {
		spec.Schedule.Cron = "0 3 1 1 *" // no capture comes in between
		if change != nil {
			change(spec)
		}
	})
	s.runPass()
	return s
}

// grow adds instances to the pool; the nodes of joining instances are Ready.
func (s *promotedPool) grow(n int, joins bool) {
	s.Helper()
	for range n {
		s.grown++
		name := fmt.Sprintf("new%d", s.grown)
		id := s.cloud.AddInstance(s.pool, name)
		if joins {
			s.node(name, id, func(node *corev1.Node) {
				node.UID, node.CreationTimestamp = types.UID(name), metav1.NewTime(s.clock.Now())
				node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.clock.Now())
			})
		}
	}
	s.must(s.cloud.Scale(s.pool, int64(len(s.cloud.InstanceIDs(s.pool)))))
	s.decider.PoolCache.Forget(s.pool) // as the watcher of the pools' capacity does
	s.decider.Nodes.News()
}

func (s *promotedPool) seen() cloud.Pool {
	s.Helper()
	seen, err := s.cloud.Pool(s.Context(), s.pool)
	s.must(err)
	return seen
}

func (s *promotedPool) tags(version string) map[string]string {
	s.Helper()
	image, err := s.cloud.Image(s.Context(), cloud.ImageRef{Pool: s.pool, Version: version})
	s.must(err)
	return image.Tags
}

// last plays so many minutes, with a pass in each minute.
func (s *promotedPool) last(minutes int) {
	s.Helper()
	for range minutes {
		s.clock.Advance(time.Minute)
		_, err := s.decider.Pass(s.Context())
		s.must(err)
	}
}

// writes counts the changing calls, by name.
func (s *promotedPool) writes() map[string]int {
	counts := map[string]int{}
	for _, c := range s.calls.Calls() {
		if c.Writes {
			counts[c.Op]++
		}
	}
	return counts
}

func (s *promotedPool) joinHealth() *v1alpha1.JoinHealthStatus {
	s.Helper()
	p := s.poolStatus("all", "pool1").JoinHealth
	if p == nil {
		s.Fatal("nothing is said about the nodes of pool1")
	}
	return p
}

// TestAutomaticRollback follows a bad version from its first node to its quarantine and the acknowledgement.
func TestAutomaticRollback(t *testing.T) {
	s := newTrust(t, nil)
	s.grow(2, false)
	s.last(12)
	if p := s.joinHealth(); p.State != "Watching" || p.Waiting != 2 || p.Version != s.bad {
		t.Fatalf("after 12 minutes: %+v", p)
	}
	s.last(15)
	if recipe := s.seen().Recipe.Version; recipe != s.good {
		t.Fatalf("the recipe names %s: %+v", recipe, s.joinHealth())
	}
	tags := s.tags(s.bad)
	if tags[cloud.TagSuspect] == "" || tags[cloud.TagRolledBackTo] != s.good || tags[cloud.TagQuarantined] != "" || s.tags(s.good)[cloud.TagPromotedAt] == "" {
		t.Fatalf("the versions carry %v and %v", tags, s.tags(s.good))
	}
	if w := s.writes(); w["SetRecipe"] != 1 || w["TagImage"] != 2 {
		t.Errorf("writes: %v", w)
	}
	s.last(1)
	s.decided("all", "pool1", "RolledBack", s.bad, "will show whether")
	s.stalled("all", "RolledBack", s.bad)
	if !s.heardOf("rolled back from version " + s.bad) {
		t.Error("no event names it")
	}
	s.grow(1, true)
	s.last(5)
	if tags := s.tags(s.bad); !strings.HasPrefix(tags[cloud.TagQuarantined], "join health: ") || tags[cloud.TagSuspect] == "" {
		t.Fatalf("the next node has joined, and the version carries %v", tags)
	}
	s.last(30)
	if w := s.writes(); w["SetRecipe"] != 1 || w["TagImage"] != 3 {
		t.Errorf("writes: %v", w)
	}
	s.decided("all", "pool1", "RolledBack", "quarantined")
	s.acknowledge()
	s.last(31) // no event reaches the controller
	if d := s.poolStatus("all", "pool1").Decision; d.Reason == "RolledBack" || s.joinHealth().Suspect != "" {
		t.Errorf("acknowledged, and still %+v", d)
	}
	s.well("all")
	if s.tags(s.bad)[cloud.TagQuarantined] == "" {
		t.Error("the version is no longer quarantined")
	}
}

// TestAReturnOutlivesItsVersion: the bad version is acknowledged and retired, and the next version is bad on the same day.
// The pool stays, and the condition reports the pool; a day after the first rollback, Kamino rolls back again.
func TestAReturnOutlivesItsVersion(t *testing.T) {
	s := newTrust(t, nil)
	s.grow(2, false)
	s.last(28)
	s.grow(1, true)
	s.last(10)
	s.acknowledge()
	s.must(s.cloud.DeleteImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.bad}))
	s.last(5)
	next := imageversion.Of(s.clock.Now())
	s.version(s.pool, s.clock.Now(), nil)
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+next)
	s.last(31)
	s.grow(2, false)
	s.last(40)
	if p := s.joinHealth(); p.State != "NodesDoNotJoin" || !strings.Contains(p.Message, "at most once a day") || s.seen().Recipe.Version != next {
		t.Fatalf("%+v, and the recipe names %s", p, s.seen().Recipe.Version)
	}
	s.clock.Advance(23 * time.Hour)
	s.grow(2, false)
	s.last(40)
	if s.seen().Recipe.Version != s.good {
		t.Errorf("a day later: %+v, and the recipe names %s", s.joinHealth(), s.seen().Recipe.Version)
	}
}

// acknowledge is `kamino acknowledge pool1`.
func (s *promotedPool) acknowledge() {
	s.Helper()
	images, err := s.cloud.Images(s.Context(), s.pool)
	s.must(err)
	a := history.Of(history.Facts{Pool: s.seen(), Images: images}).Acknowledge(s.clock.Now())
	if a.Done {
		s.Fatal("there is nothing to acknowledge")
	}
	for _, mark := range a.Marks {
		for done := false; !done; {
			r, err := recipe.OfMark(mark, s.cloud, s.pool).Pass(s.Context())
			s.must(err)
			done = r.Done()
		}
	}
}

// TestNewNodesAreNoOutage: in a small cluster, new nodes of two pools that are never Ready are no outage of the whole
// cluster. An outage would excuse every failure; here the condition reports the pools.
func TestNewNodesAreNoOutage(t *testing.T) {
	s := newTrust(t, nil)
	other := s.testEnv.pool("pool3", 0, 3)
	for i := range 8 {
		pool := []cloud.PoolID{s.pool, other}[i%2]
		name := fmt.Sprintf("came%d", i)
		s.node(name, s.cloud.AddInstance(pool, name), func(node *corev1.Node) {
			node.UID, node.CreationTimestamp = types.UID(name), metav1.NewTime(s.clock.Now())
			node.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(s.clock.Now())}
		})
	}
	s.decider.PoolCache.Forget(s.pool)
	s.decider.PoolCache.Forget(other)
	s.decider.Nodes.News()
	s.last(40)
	if p := s.joinHealth(); p.State != "NodesDoNotJoin" || !strings.Contains(p.Message, "did not join in the same time either") || p.Failed != 4 {
		t.Errorf("%+v", p)
	}
	s.degradedFor("NodesDoNotJoin")
}

// TestTheImageWasNotTheCause: the next node of the earlier version fails, too.
func TestTheImageWasNotTheCause(t *testing.T) {
	s := newTrust(t, nil)
	s.grow(2, false)
	s.last(30)
	if s.seen().Recipe.Version != s.good {
		t.Fatalf("it did not go back: %+v", s.joinHealth())
	}
	s.grow(1, false)
	s.last(30)
	if tags := s.tags(s.bad); tags[cloud.TagSuspect] != "" || tags[cloud.TagQuarantined] != "" || tags[cloud.TagRolledBackAt] == "" {
		t.Fatalf("it carries %v", tags)
	}
	s.decided("all", "pool1", "RolledBack", "not the cause")
	s.grow(3, false)
	s.last(60)
	if w := s.writes(); w["SetRecipe"] != 1 {
		t.Errorf("writes: %v", w)
	}
}

// TestObstaclesOfAutomaticRollback on a version whose nodes do not join: Kamino reports the reason, and writes nothing.
func TestObstaclesOfAutomaticRollback(t *testing.T) {
	for name, test := range map[string]struct {
		policy func(*v1alpha1.PrototypePolicySpec)
		world  func(*promotedPool)
		reason string
	}{
		"switched off": {func(s *v1alpha1.PrototypePolicySpec) { s.Rollback.Mode = v1alpha1.RollbackOff }, nil, "does not enable automatic rollback"},
		"dry run":      {func(s *v1alpha1.PrototypePolicySpec) { s.DryRun = true }, nil, "does not enable automatic rollback"},
		"no prior": {nil, func(s *promotedPool) {
			s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.good}, map[string]string{cloud.TagQuarantined: "why"}))
		}, "no version to roll back to"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrust(t, test.policy)
			if test.world != nil {
				test.world(s)
			}
			s.grow(2, false)
			s.last(40)
			if p := s.joinHealth(); p.State != "NodesDoNotJoin" || !strings.Contains(p.Message, test.reason) || p.Failed != 2 {
				t.Errorf("%+v", p)
			}
			w := s.writes()
			delete(w, "AllowLaunches")
			if len(w) > 0 || s.seen().Recipe.Version != s.bad {
				t.Errorf("writes: %v", w)
			}
			c := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded)
			if c.Status != metav1.ConditionTrue || c.Reason != "NodesDoNotJoin" || !strings.Contains(c.Message, test.reason) {
				t.Errorf("condition: %+v", c)
			}
		})
	}
}

// TestEveryCallOfRollbackLost loses each call once, before or after its effect, and kills the controller at that moment.
// In the end the pool has rolled back once, and the version is quarantined.
func TestEveryCallOfRollbackLost(t *testing.T) {
	for name, loss := range map[string]memory.Outcome{
		"before": memory.FailBefore(cloud.Unavailable), "after": memory.FailAfter(cloud.Unavailable), "conflict": memory.FailAfter(cloud.Conflict),
	} {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				s := trustInMemory(t)
				s.grow(2, false)
				s.last(14)
				writes, lost := 0, false
				s.calls.Inject(func(c memory.Call) memory.Outcome {
					if c.Writes {
						if writes++; writes == n+1 && !lost {
							lost = true
							return loss
						}
					}
					return memory.Pass()
				})
				for range 30 {
					before := lost
					s.last(1)
					if lost && !before {
						s.restart()
					}
				}
				s.grow(1, true)
				for range 12 {
					before := lost
					s.last(1)
					if lost && !before {
						s.restart()
					}
				}
				s.wantOneReturn(n)
				if !lost {
					break
				}
				if n > 10 {
					t.Fatal("it does not end")
				}
			}
		})
	}
}

func (s *promotedPool) wantOneReturn(n int) {
	s.Helper()
	tags := s.tags(s.bad)
	if s.seen().Recipe.Version != s.good || tags[cloud.TagQuarantined] == "" || tags[cloud.TagRolledBackTo] != s.good || tags[cloud.TagRolledBackAt] == "" {
		s.Errorf("write %d lost: the recipe names %s, %s carries %v: %+v", n, s.seen().Recipe.Version, s.bad, tags, s.joinHealth())
	}
	images, err := s.cloud.Images(s.Context(), s.pool)
	s.must(err)
	if returns := history.AutoRollbacks(images); len(returns) != 1 {
		s.Errorf("write %d lost: %d returns: %+v", n, len(returns), returns)
	}
}

// TestKilledAtAnyMinute: a killed controller reaches the same verdict at any minute, also if a client removes nodes
// meanwhile.
func TestKilledAtAnyMinute(t *testing.T) {
	for _, minute := range []int{1, 5, 14, 16, 18, 20, 21, 22, 23} {
		s := trustInMemory(t)
		s.grow(2, false)
		s.last(minute)
		s.restart()
		s.last(32 - minute)
		s.grow(1, true)
		s.restart()
		s.last(6)
		s.wantOneReturn(minute)
	}
	s := trustInMemory(t)
	s.grow(1, false)
	s.last(25)
	s.cloud.RemoveInstance(s.newest())
	s.restart() // knows of the first failure by the report alone
	s.grow(1, false)
	s.last(25)
	s.grow(1, true)
	s.last(6)
	s.wantOneReturn(-1)
}

func (s *promotedPool) newest() cloud.InstanceID {
	ids := s.cloud.InstanceIDs(s.pool)
	return slices.MaxFunc(ids, func(a, b cloud.InstanceID) int { return strings.Compare(string(a), string(b)) })
}

// TestNodesThatDiffer: a difference from nodes of other images is reported, and fails a node only if the policy says so.
func TestNodesThatDiffer(t *testing.T) {
	for _, fails := range []bool{false, true} {
		s := newTrust(t, func(spec *v1alpha1.PrototypePolicySpec) {
			spec.Rollback.Mode, spec.Rollback.FailOnDifference = v1alpha1.RollbackOff, fails // the report stays with the version
			spec.Settings.Trial.IgnoreDifferences = []string{"label/team"}
		})
		s.decider.NewNodes.Differences = func(_ context.Context, pool cloud.PoolID, nodes, others, ignore []string) (map[string]string, error) {
			if pool != s.pool && len(nodes) > 0 || len(others) < 2 || !slices.Equal(ignore, []string{"label/team"}) {
				t.Errorf("pool %s: %v with %v, without %v", pool, nodes, others, ignore)
			}
			found := map[string]string{}
			for _, node := range nodes {
				found[node] = "allocatable pods is 8"
			}
			return found, nil
		}
		s.grow(2, true)
		s.last(20)
		p := s.joinHealth()
		joined, failed := p.Joined, p.Failed
		if fails != (failed == 2) || fails == (joined == 2) || p.Joins[0].Message != "the node differs from its peers: allocatable pods is 8" {
			t.Errorf("fails %t: %d joined, %d failed: %+v", fails, joined, failed, p.Joins)
		}
	}
}

// TestNodesThatDieAfterTheJoin: join tracking ends an hour after the start. Later, the cohort calls a person, without a rollback.
func TestNodesThatDieAfterTheJoin(t *testing.T) {
	s := newTrust(t, nil)
	s.last(25)
	s.grow(6, true)
	s.last(75)
	if p := s.joinHealth(); p.State != "Watching" || p.Joined != 6 {
		t.Fatalf("%+v", p)
	}
	asked := len(s.calls.Calls())
	for i := range 6 {
		s.change(s.pool, fmt.Sprint("new", i+1), func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(s.clock.Now())
		})
	}
	s.last(15)
	p := s.joinHealth()
	if p.State != "NodesDoNotJoin" || p.Failed != 0 ||
		!strings.Contains(p.Message, "0 of 6 nodes of an age are Ready; other nodes of the pool of that age: 4 of 4") {
		t.Errorf("%+v", p)
	}
	s.degradedFor("NodesDoNotJoin")
	for _, c := range s.calls.Calls()[asked:] {
		if c.Writes {
			t.Errorf("it called %s", c.Op)
		}
	}
}

// TestPodsThatFailOnAVersion: the nodes are Ready, and a DaemonSet fails on each of them. The cohort calls a person, names the workload, and the
// status has the counts.
func TestPodsThatFailOnAVersion(t *testing.T) {
	s := newTrust(t, nil)
	asked := map[string]int{}
	fails := true
	s.decider.NewNodes.Workloads = func(_ context.Context, nodes []string) (map[string]map[string]bool, error) {
		found := map[string]map[string]bool{}
		for _, node := range nodes {
			asked[node]++
			found[node] = map[string]bool{"DaemonSet shop/agent@1": !fails || !strings.HasPrefix(node, "new")}
		}
		return found, nil
	}
	s.last(25)
	s.grow(6, true)
	s.last(55)
	if p := s.joinHealth(); p.State != "Watching" || asked["new1"] > 0 {
		t.Fatalf("young nodes were asked %d times: %+v", asked["new1"], p)
	}
	s.last(30)
	p := s.joinHealth()
	if p.State != "NodesDoNotJoin" || !strings.Contains(p.Message, "on 0 of 6 nodes the pods run that run on other nodes of the pool; on the other nodes: 4 of 4") ||
		!strings.Contains(p.Message, "for example DaemonSet shop/agent; cohorts do not roll back") {
		t.Errorf("%+v", p)
	}
	if p.Cohorts != "6 of 6 Ready, before: 4 of 4; pods run on 0 of 6, before: 4 of 4" {
		t.Errorf("cohorts: %q", p.Cohorts)
	}
	if asked["new1"] > 4 {
		t.Errorf("asked %d times within half an hour", asked["new1"])
	}
	s.degradedFor("NodesDoNotJoin")
	if w := s.writes(); len(w) > 0 {
		t.Errorf("writes: %v", w)
	}
	fails = false
	s.last(25)
	if p := s.joinHealth(); p.State != "Watching" {
		t.Errorf("the pods run again: %+v", p)
	}
}

// TestProblemsThatTheVersionsNodesReport: the nodes stay Ready, and a condition of a problem lasts. A type that no other node has, and pressure of
// memory, count for nothing.
func TestProblemsThatTheVersionsNodesReport(t *testing.T) {
	for kind, test := range map[corev1.NodeConditionType]struct{ onOthers, alarms bool }{
		corev1.NodeDiskPressure: {true, true}, "KernelDeadlock": {true, true}, "DiskCorrupt": {false, false}, corev1.NodeMemoryPressure: {true, false},
	} {
		s := newTrust(t, nil)
		s.last(25)
		s.grow(6, true)
		s.last(30)
		var names []string
		for _, n := range s.decider.Nodes.Of(s.pool) {
			names = append(names, n.Name)
		}
		for _, name := range names {
			isNew := strings.HasPrefix(name, "new")
			if !isNew && !test.onOthers {
				continue
			}
			s.change(s.pool, name, func(n *corev1.Node) {
				c := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.clock.Now())}
				if isNew {
					c.Status = corev1.ConditionTrue
				}
				n.Status.Conditions = append(n.Status.Conditions, c)
			})
		}
		s.last(5)
		if p := s.joinHealth(); p.State != "Watching" {
			t.Fatalf("%s, for five minutes: %+v", kind, p)
		}
		s.last(10)
		says := "0 of 6 Ready nodes report no problem; other Ready nodes of the pool: 4 of 4 (p = 0.0048), for example condition " + string(kind)
		if p := s.joinHealth(); (p.State == "NodesDoNotJoin") != test.alarms || strings.Contains(p.Message, says) != test.alarms {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}

// TestOneFaultInTwoPools: two pools took a version of the same day, and no node of either joins. Nodes of a pool that kept its version join, so
// both pools roll back.
func TestOneFaultInTwoPools(t *testing.T) {
	s := newTrust(t, nil)
	second, third := *s, *s
	second.pool, third.pool = s.testEnv.pool("pool4", 4, 3), s.testEnv.pool("pool5", 4, 30)
	second.grown, third.grown = 100, 200
	s.version(second.pool, s.clock.Now().AddDate(0, 0, -1), nil)
	s.cloud.ChangeRecipe(second.pool, string(second.pool)+"/versions/"+s.bad)
	s.decider.PoolCache.Forget(second.pool)
	s.last(31)
	for range 4 {
		s.grow(1, false)
		second.grow(1, false)
		third.grow(1, true)
		s.last(4)
	}
	s.last(40)
	for _, of := range []*promotedPool{s, &second} {
		if seen := of.seen(); seen.Recipe.Version != s.good {
			t.Errorf("pool %s names %s: %+v", seen.Name, seen.Recipe.Version, s.poolStatus("all", seen.Name).JoinHealth)
		}
	}
}
