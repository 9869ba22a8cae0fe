package capture

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// removedDonor is a stage with a donor that does not return, with or without GrowFirst.
func removedDonor(growFirst bool) func(*v1alpha1.Prototype) {
	return func(p *v1alpha1.Prototype) {
		p.Spec.Settings.Generalize.Profile, p.Spec.Settings.Donor.GrowFirst = v1alpha1.ProfileBootstrap, &growFirst
	}
}

// mayRemove checks that an instance is removed only after the copy of its disk, or after a failure or deletion.
func (s *testEnv) mayRemove() {
	s.t.Helper()
	p := s.prototype()
	if s.tracked("pods", "default", soaked) != nil && s.cloud.World().Instance(s.donor).Power == cloud.PowerRunning && !s.hung {
		s.t.Errorf("the instance is removed with its pods: %s", verdict(p))
	}
	if p == nil || p.DeletionTimestamp != nil || p.Status.Failure != nil || s.schedule.IsWiped() {
		return
	}
	for _, snapshot := range s.cloud.World().Snapshots {
		if snapshot.Instance == s.donor && snapshot.State == cloud.Complete && snapshot.Generalized {
			return
		}
	}
	s.t.Errorf("the instance is removed before its disk was copied: %s", verdict(p))
}

// checkDonorRemoved checks that the donor is gone with all its objects, that the pool has its intended size, and that no other node
// was touched.
func (s *testEnv) checkDonorRemoved(size int64) {
	s.t.Helper()
	s.gaveBack()
	w := s.cloud.World()
	if m := w.Instance(s.donor); m.ID != "" {
		s.t.Errorf("the donor's instance is there: %+v", m)
	}
	if s.tracked("nodes", "", donorName) != nil {
		s.t.Error("the donor's Node is there")
	}
	if w.Count(memory.ByCaller, memory.EffectStart, "") != 0 {
		s.t.Error("a donor that does not return was started")
	}
	if got := w.Pools[0].Capacity; got != size {
		s.t.Errorf("the pool's wanted size is %d nodes, want %d", got, size)
	}
	if got := int64(len(s.cloud.InstanceIDs(s.pool))); got != size {
		s.t.Errorf("the pool has %d instances, want %d", got, size)
	}
}

// TestADonorThatDoesNotReturn is captured and removed. The pool keeps its size, is never smaller with GrowFirst, and
// its recipe keeps the bootstrap data.
func TestADonorThatDoesNotReturn(t *testing.T) {
	for name, c := range map[string]struct {
		growFirst, tidy bool
		steps           []v1alpha1.Phase
	}{
		"behind its replacement": {true, false, []v1alpha1.Phase{
			v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseGrowing, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping,
			v1alpha1.PhaseSnapshotting, v1alpha1.PhaseRemoving, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting}},
		"before it": {false, false, []v1alpha1.Phase{
			v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping,
			v1alpha1.PhaseSnapshotting, v1alpha1.PhaseRemoving, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting}},
		"in a cluster that deletes Nodes": {growFirst: true, tidy: true},
		"before it, in such a cluster":    {tidy: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.tidy = c.tidy }).decide(removedDonor(c.growFirst))
			least, most := int64(2), int64(2)
			p := s.play(func(int) {
				size := s.cloud.World().Pools[0].Capacity
				least, most = min(least, size), max(most, size)
			})
			if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
				t.Fatalf("the capture did not succeed: %s", verdict(p))
			}
			s.checkDonorRemoved(2)
			if c.growFirst && (least != 2 || most != 3) || !c.growFirst && (least != 1 || most != 2) {
				t.Errorf("the pool had from %d to %d nodes", least, most)
			}
			recipe := s.cloud.World().Pools[0].Recipe
			if diff := cmp.Diff([]string{"customData", "vmssCSE"}, recipe.Bootstrap); recipe.Version != p.Spec.Version || diff != "" {
				t.Errorf("the recipe points at %s; its bootstrap (-before +after):\n%s", recipe.Version, diff)
			}
			var phases []v1alpha1.Phase
			for _, step := range p.Status.Steps {
				phases = append(phases, step.Phase)
			}
			if diff := cmp.Diff(c.steps, slices.Compact(phases)); c.steps != nil && diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) || p.Status.Donor.State != v1alpha1.DonorRemoved ||
				p.Status.Donor.ReleasedAt == nil {
				t.Errorf("conditions: %+v, donor: %+v", p.Status.Conditions, p.Status.Donor)
			}
			if n, _ := s.tracked("nodes", "", "peer").(*corev1.Node); n == nil || n.Spec.Unschedulable {
				t.Errorf("another node was changed: %+v", n)
			}
		})
	}
}
