package policy_test

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// oneLook is the number of requests to look for an unfinished rollback: one look for a pool without requests of a policy.
const oneLook = 2

// halfBack is a pool with the tags of a rollback, while the cloud refuses changes of the recipe.
func halfBack(t *testing.T) *promotedPool {
	s := trustInMemory(t)
	s.grow(2, false)
	s.calls.Inject(func(c memory.Call) memory.Outcome {
		if c.Op == "SetRecipe" {
			return memory.FailBefore(cloud.Denied)
		}
		return memory.Pass()
	})
	s.last(30)
	if s.tags(s.bad)[cloud.TagRolledBackAt] == "" || s.seen().Recipe.Version != s.bad {
		t.Fatalf("no rollback was begun: %v, %+v", s.tags(s.bad), s.joinHealth())
	}
	return s
}

// TestRollingBackIsReported in the decision, the conditions and the join tracking, and nothing reports a finished
// rollback.
func TestRollingBackIsReported(t *testing.T) {
	s := halfBack(t)
	s.decided("all", "pool1", "RollingBack", "is rolling back from version "+s.bad+" to "+s.good)
	s.stalled("all", "RollingBack", "is rolling back from version "+s.bad)
	if p := s.joinHealth(); p.State != "RollingBack" || p.RolledBackAt != nil || p.Suspect != s.bad {
		t.Errorf("%+v", p)
	}
	c := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded)
	if c.Status != metav1.ConditionTrue || c.Reason != "RollingBack" {
		t.Errorf("the cloud refuses the change of the recipe, and the condition is %+v", c)
	}
	if s.heardOf("rolled back from") {
		t.Error("an event reports a finished rollback")
	}
	s.calls.Inject(nil)
	s.last(3)
	s.decided("all", "pool1", "RolledBack", "rolled back automatically from version "+s.bad)
	s.stalled("all", "RolledBack")
	if p := s.joinHealth(); p.State != "Suspected" || p.RolledBackAt == nil || s.seen().Recipe.Version != s.good {
		t.Errorf("%+v", p)
	}
}

// TestARollbackNeedsNoPolicyToBeFinished: after any change of the pool's policy between the tags and the recipe, this
// controller and the next controller finish the rollback.
func TestARollbackNeedsNoPolicyToBeFinished(t *testing.T) {
	for name, change := range map[string]func(*promotedPool){
		"as it was":          func(*promotedPool) {},
		"the policy deleted": func(s *promotedPool) { s.must(s.client.Delete(s.Context(), s.status("all"))) },
		"the pool left out": func(s *promotedPool) {
			s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"pool2"} })
		},
		"the policy suspended": func(s *promotedPool) {
			s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.Suspend = true })
		},
		"a dry run": func(s *promotedPool) { s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.DryRun = true }) },
		"rollback off": func(s *promotedPool) {
			s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.Rollback.Mode = v1alpha1.RollbackOff })
		},
		"an unreadable policy": func(s *promotedPool) {
			s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.Schedule.Cron = "0 0 30 2 *" })
		},
		"two policies for it": func(s *promotedPool) { s.policy("also", nil) },
		"a person quarantined it": func(s *promotedPool) {
			s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.bad}, map[string]string{cloud.TagQuarantined: "rolled back by hand"}))
		},
	} {
		for when, later := range map[string]func(*promotedPool){
			"the same controller": func(*promotedPool) {},
			"the next controller": func(s *promotedPool) {
				s.clock.Advance(30 * time.Hour)
				s.restart()
			},
		} {
			t.Run(name+"/"+when, func(t *testing.T) {
				s := halfBack(t)
				change(s)
				later(s)
				s.calls.Inject(nil)
				s.last(12)
				if recipe := s.seen().Recipe.Version; recipe != s.good {
					t.Errorf("the recipe names %s", recipe)
				}
				if s.tags(s.good)[cloud.TagPromotedAt] == "" {
					t.Error("nothing says that the pool has come to the version")
				}
			})
		}
	}
}

// TestTagsBeginNoRollback: a user of the cloud writes the tags of a rollback. Nothing changes the recipe, with and without a policy.
func TestTagsBeginNoRollback(t *testing.T) {
	for _, policy := range []bool{true, false} {
		t.Run(fmt.Sprintf("policy %t", policy), func(t *testing.T) {
			s := newTrust(t, nil)
			if !policy {
				s.must(s.client.Delete(s.Context(), s.status("all")))
			}
			s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.bad}, map[string]string{
				cloud.TagSuspect: "two nodes", cloud.TagRolledBackTo: s.good, cloud.TagRolledBackAt: s.clock.Now().Format(time.RFC3339),
			}))
			s.decider.PoolCache.Forget(s.pool)
			s.last(40)
			s.restart()
			s.last(40)
			if recipe := s.seen().Recipe.Version; recipe != s.bad || s.writes()["SetRecipe"] > 0 {
				t.Errorf("the recipe names %s, writes: %v", recipe, s.writes())
			}
			if policy {
				s.decided("all", "pool1", "RolledBack", "is marked as suspect", "kamino rollback")
			}
		})
	}
}

// TestTheRecordPrecedesTheTags: a rollback that cannot be recorded writes nothing to the cloud, and begins later.
func TestTheRecordPrecedesTheTags(t *testing.T) {
	s := newTrust(t, nil)
	down := true
	s.kube.PrependReactor("create", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
		return down, nil, apierrors.NewServiceUnavailable("test")
	})
	s.grow(2, false)
	s.last(30)
	if w := s.writes(); len(w) > 1 || w["SetCapacity"] != len(w) {
		t.Errorf("without a record: %v", w)
	}
	down = false
	s.last(12)
	leases, err := s.kube.CoordinationV1().Leases(v1alpha1.DefaultNamespace).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	if recipe := s.seen().Recipe.Version; recipe != s.good || len(leases.Items) > 0 {
		t.Errorf("the recipe names %s, and %d records are left", recipe, len(leases.Items))
	}
}

// TestAPoolWithoutAPolicyCostsLittle: Kamino looks for an unfinished rollback once, and seldom afterwards.
func TestAPoolWithoutAPolicyCostsLittle(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 3)
	s.runPass()
	first := len(s.calls.Calls())
	for range 300 {
		s.clock.Advance(time.Minute)
		s.runPass()
	}
	if later := len(s.calls.Calls()) - first; first > oneLook || later > 0 {
		t.Errorf("%d requests at the start, %d in the five hours afterwards", first, later)
	}
}
