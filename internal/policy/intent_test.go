package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
			s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.bad}, map[string]string{cloud.TagRolledBackAt: s.clock.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}))
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
			return true, nil, apierrors.NewServiceUnavailable("test")
		}
		return false, nil, nil
	})
	s.calls.Inject(nil)
	for minute := range 30 {
		s.last(1)
		if s.seen().Recipe.Version == s.good {
			if failed == 0 {
				t.Fatal("no read failed")
			}
			if minute > 4 {
				t.Errorf("the rollback went on after %d minutes, %d reads failed", minute, failed)
			}
			return
		}
	}
	t.Errorf("no rollback; %d reads failed", failed)
}

// TestForgedArrival: tags on an unused version claim a later rollback to the version that is being left. The genuine rollback goes on.
func TestForgedArrival(t *testing.T) {
	s := halfBack(t)
	s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: s.good}, map[string]string{
		cloud.TagSuspect: "x", cloud.TagRolledBackTo: s.bad, cloud.TagRolledBackAt: s.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}))
	s.decider.PoolCache.Forget(s.pool)
	s.calls.Inject(nil)
	s.last(60)
	t.Logf("recipe %s, records %v, tags bad %v good %v", s.seen().Recipe.Version, s.records(), s.tags(s.bad), s.tags(s.good))
}
