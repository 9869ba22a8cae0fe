package policy_test

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func (s *promotedPool) records() (names []string) {
	leases, err := s.kube.CoordinationV1().Leases(v1alpha1.DefaultNamespace).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for _, l := range leases.Items {
		names = append(names, l.Name)
	}
	return names
}

// TestRecordLost: the record of a rollback in progress is lost or is of another second, as after an upgrade from a version without
// records, or after two processes that began at once. The version is as bad as before, and the pool leaves it.
func TestRecordLost(t *testing.T) {
	for name, change := range map[string]func(*promotedPool){
		"lost": func(s *promotedPool) {
			for _, n := range s.records() {
				s.must(s.kube.CoordinationV1().Leases(v1alpha1.DefaultNamespace).Delete(s.Context(), n, metav1.DeleteOptions{}))
			}
		},
		"of another second": func(s *promotedPool) {
			s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.bad},
				map[string]string{cloud.TagRolledBackAt: s.clock.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}))
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", name, again), func(t *testing.T) {
				s := halfBack(t)
				change(s)
				s.decider.PoolCache.Forget(s.pool)
				if again {
					s.restart()
				}
				s.calls.Inject(nil)
				s.last(60)
				if recipe := s.seen().Recipe.Version; recipe != s.good {
					t.Errorf("the recipe names %s, join health: %+v, tags %v", recipe, s.joinHealth(), s.tags(s.bad))
				}
			})
		}
	}
}

// TestLeaseUnreadOnce: one read of the record fails. The rollback goes on within some minutes, as after one failed read of the cloud.
func TestLeaseUnreadOnce(t *testing.T) {
	s := halfBack(t)
	s.decider.PoolCache.Forget(s.pool)
	s.restart()
	failed := 0
	s.kube.PrependReactor("get", "leases", func(a kubetesting.Action) (bool, runtime.Object, error) {
		if failed == 0 && strings.HasPrefix(a.(kubetesting.GetAction).GetName(), "kamino-rollback-") {
			failed++
			return true, nil, &url.Error{Op: "Get", URL: "https://10.0.0.1/apis", Err: syscall.ECONNREFUSED}
		}
		return false, nil, nil
	})
	s.calls.Inject(nil)
	before := failed
	for minute := range 30 {
		s.last(1)
		if s.seen().Recipe.Version == s.good {
			if failed == 0 {
				t.Fatal("no read failed")
			}
			t.Logf("minute %d, failed before %d", minute, before)
			if minute > 4 {
				t.Errorf("the rollback went on after %d minutes, %d reads failed", minute, failed)
			}
			return
		}
	}
	t.Errorf("no rollback; %d reads failed", failed)
}

// TestOldRecordConfirmsNothing: a person acknowledges a rollback in progress, so that the pool stays. A user of the cloud then
// writes the tags of that rollback again. Nothing changes the recipe.
func TestOldRecordConfirmsNothing(t *testing.T) {
	s := halfBack(t)
	before := s.tags(s.bad)
	s.acknowledge()
	s.must(s.client.Delete(s.Context(), s.status("all")))
	s.calls.Inject(nil)
	s.decider.PoolCache.Forget(s.pool)
	s.last(3)
	if recipe := s.seen().Recipe.Version; recipe != s.bad {
		t.Fatalf("after the acknowledgement the recipe names %s", recipe)
	}
	if names := s.records(); len(names) > 0 {
		t.Errorf("records of an acknowledged rollback: %v", names)
	}
	s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.bad}, map[string]string{
		cloud.TagSuspect: before[cloud.TagSuspect], cloud.TagRolledBackTo: before[cloud.TagRolledBackTo], cloud.TagRolledBackAt: before[cloud.TagRolledBackAt],
	}))
	s.clock.Advance(30 * time.Hour)
	s.restart()
	s.last(12)
	if recipe := s.seen().Recipe.Version; recipe != s.bad {
		t.Errorf("the recipe names %s, by the tags of a user", recipe)
	}
}
