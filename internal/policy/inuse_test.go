package policy_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestInUseFollowsTheRecipe: of the ended captures of a pool, only the capture of the recipe's version is in use. The same
// holds after a rollback, a quarantine and a deletion. A pass calls the cloud no more often for the condition.
func TestInUseFollowsTheRecipe(t *testing.T) {
	s := newTestEnv(t)
	s.inMemory()
	pool := s.pool("pool1", 3, 10)
	s.policy("all", nil)
	s.runPass()
	made := s.prototypes()
	if len(made) != 1 {
		t.Fatalf("%d captures, want one", len(made))
	}
	name, version := made[0].Name, made[0].Spec.Version
	earlier := string(pool) + "/versions/" + s.status("all").Status.Pools[0].CurrentVersion
	inUse := func() (status, reason string) {
		p := &v1alpha1.Prototype{}
		s.must(s.client.Get(t.Context(), client.ObjectKey{Name: name}, p))
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionInUse); c != nil {
			return string(c.Status), c.Reason
		}
		return "", ""
	}
	if status, _ := inUse(); status != "" {
		t.Errorf("a capture that runs is in use: %s", status)
	}
	p := &v1alpha1.Prototype{}
	s.must(s.client.Get(t.Context(), client.ObjectKey{Name: name}, p))
	p.Status.Image = &v1alpha1.ImageStatus{ID: string(pool) + "/versions/" + version, ReplicationPercent: 100}
	s.must(s.client.Status().Update(t.Context(), p))
	s.version(pool, s.clock.Now(), nil)
	s.cloud.ChangeRecipe(pool, string(pool)+"/versions/"+version)
	s.end(name, v1alpha1.PhaseSucceeded)

	later := func() {
		s.clock.Advance(25 * time.Hour)
		s.runPass()
	}
	for _, step := range []struct {
		what           string
		do             func()
		status, reason string
	}{
		{"promoted", func() {}, "True", "Current"},
		{"rolled back", func() { s.cloud.ChangeRecipe(pool, earlier) }, "False", "OtherImage"},
		{"quarantined", func() {
			s.must(s.calls.TagImage(t.Context(), cloud.ImageRef{Pool: pool, Version: version}, map[string]string{cloud.TagQuarantined: "bad"}))
		}, "False", "VersionQuarantined"},
		{"deleted", func() { s.must(s.calls.DeleteImage(t.Context(), cloud.ImageRef{Pool: pool, Version: version})) }, "False", "VersionDeleted"},
		{"without a policy", func() {
			s.edit("all", func(spec *v1alpha1.PrototypePolicySpec) { spec.Pools.Names = []string{"other"} })
		}, "Unknown", "PoolNotWatched"},
	} {
		step.do()
		later()
		if status, reason := inUse(); status != step.status || reason != step.reason {
			t.Errorf("%s: InUse is %s (%s), want %s (%s)", step.what, status, reason, step.status, step.reason)
		}
	}
}
