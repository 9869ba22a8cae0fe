package capture

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// promotedElsewhere is a promotion of the same policy in another pool, an hour before noon.
func promotedElsewhere(v *trialEnv, joins v1alpha1.JoinHealthStatus, mode v1alpha1.RollbackMode) {
	v.onPrototype(func(p *v1alpha1.Prototype) { p.Labels = map[string]string{v1alpha1.PolicyLabel: "all"} })
	other := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool2-" + triedVersion, UID: "other", Labels: map[string]string{v1alpha1.PolicyLabel: "all"}}}
	other.Spec.Pool, other.Spec.PoolID, other.Spec.Version = "pool2", "/pools/pool2", triedVersion
	other.Status = v1alpha1.PrototypeStatus{
		Phase: v1alpha1.PhaseSucceeded, Steps: []v1alpha1.Step{{Phase: v1alpha1.PhasePromoting, StartedAt: metav1.NewMicroTime(noon.Add(-time.Hour))}},
	}
	v.must(v.clean.Create(v.t.Context(), other.DeepCopy()))
	v.must(v.clean.Status().Update(v.t.Context(), other))
	policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "all"}}
	policy.Spec.Rollback.Mode = mode
	policy.Status.Pools = []v1alpha1.PoolStatus{{ID: "/Pools/pool2", Name: "pool2", JoinHealth: &joins}}
	v.must(v.clean.Create(v.t.Context(), policy.DeepCopy()))
	v.must(v.clean.Status().Update(v.t.Context(), policy))
}

// TestPromotionsGoInWaves: the version of a policy waits for nodes of the pool that went first, without a question to a person.
func TestPromotionsGoInWaves(t *testing.T) {
	joins := func(change func(*v1alpha1.JoinHealthStatus)) v1alpha1.JoinHealthStatus {
		j := v1alpha1.JoinHealthStatus{Version: triedVersion, State: "Watching"}
		change(&j)
		return j
	}
	nothing := func(*v1alpha1.JoinHealthStatus) {}
	for name, test := range map[string]struct {
		joins v1alpha1.JoinHealthStatus
		mode  v1alpha1.RollbackMode
		// then ends the wait; nil if nothing is waited for.
		then func(*trialEnv)
		says string
	}{
		"three nodes join meanwhile": {joins(nothing), v1alpha1.RollbackAutomatic, func(v *trialEnv) {
			policy := &v1alpha1.PrototypePolicy{}
			v.must(v.clean.Get(v.t.Context(), client.ObjectKey{Name: "all"}, policy))
			policy.Status.Pools[0].JoinHealth.Joined = 3
			v.must(v.clean.Status().Update(v.t.Context(), policy))
		}, "pool pool2 took version " + triedVersion + " first"},
		"a day passes": {joins(nothing), v1alpha1.RollbackAutomatic, func(v *trialEnv) { v.clock.Advance(23 * time.Hour) }, "until 2026-03-15T11:00:00Z at the latest"},
		"a person does not wait": {joins(func(j *v1alpha1.JoinHealthStatus) { j.State = "NodesDoNotJoin" }), v1alpha1.RollbackAutomatic,
			func(v *trialEnv) { v.promoteByHand() }, "is suspect, so no other pool"},
		"pool2 rolled back": {joins(func(j *v1alpha1.JoinHealthStatus) { j.Version, j.Suspect = "2026.03.01", triedVersion }), v1alpha1.RollbackAutomatic,
			func(v *trialEnv) { v.promoteByHand() }, "is suspect, so no other pool"},
		"three nodes have joined": {joins(func(j *v1alpha1.JoinHealthStatus) { j.Joined = 3 }), v1alpha1.RollbackAutomatic, nil, ""},
		"nothing is rolled back":  {joins(nothing), v1alpha1.RollbackOff, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := published(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.Mode = v1alpha1.TrialOff })
			promotedElsewhere(v, test.joins, test.mode)
			waited := 0
			p := v.play(func(int) {
				p := v.prototype()
				if p.Status.Phase != v1alpha1.PhaseAwaitingPromotion {
					return
				}
				ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
				if !p.Status.HeldBack() || !strings.Contains(ready.Message, test.says) || !strings.Contains(p.Status.Progress, test.says) {
					t.Errorf("%s, %+v", p.Status.Progress, ready)
				}
				if v.cloud.World().Pools[0].Recipe.Version == triedVersion && !v.byHand {
					t.Error("the recipe names the version")
				}
				if waited++; waited == 4 && test.then != nil {
					test.then(v)
				}
			})
			if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || v.cloud.World().Pools[0].Recipe.Version != triedVersion {
				t.Fatal(verdict(p))
			}
			if (waited > 0) != (test.then != nil) || waited > 0 && waited < 4 {
				t.Errorf("it waited for %d passes", waited)
			}
		})
	}
}
