package capi_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// newGrowth is the capture of a pioneer that a pool of two Machines grows by.
func newGrowth(t testing.TB) *testEnv {
	s := newTestEnv(t, 2)
	s.decideSpec(func(spec *v1alpha1.PrototypeSpec) {
		spec.Donor, spec.Pioneer = v1alpha1.Donor{}, &v1alpha1.PioneerSettings{Node: v1alpha1.PioneerGrow, Soak: &metav1.Duration{Duration: time.Second}}
	})
	return s
}

// addedMachine is the Machine that the pool has besides the first two.
func (s *testEnv) addedMachine() (m unstructured.Unstructured) {
	for _, m := range s.list("Machine") {
		if m.GetUID() != s.donor.GetUID() && m.GetUID() != s.peer.GetUID() {
			return m
		}
	}
	return m
}

// wantFormerPool requires the first Machines, untouched, in a pool of this size, and no leftovers of the capture.
func (s *testEnv) wantFormerPool(size int64) {
	s.t.Helper()
	machines, w := s.list("Machine"), s.cloud.World()
	if have := replicas(*s.get("MachineDeployment", s.pool.name)); have != size || len(machines) != int(size) || len(w.Instances) != int(size) ||
		len(s.all()) != int(size) {
		s.t.Errorf("the pool wants %d machines, and has %d with %d instances and %d Nodes, want %d", have, len(machines), len(w.Instances), len(s.all()), size)
	}
	s.wantUntouched(s.donor)
	s.wantUntouched(s.peer)
	s.wantUnmarked()
	for _, n := range s.all() {
		if n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			s.t.Errorf("node %s is left cordoned (%t) or reserved", n.Name, n.Spec.Unschedulable)
		}
	}
	if snapshots := w.Count(memory.ByCaller, memory.EffectSnapshot, ""); snapshots > 0 || len(s.ownPods()) > 0 {
		s.t.Errorf("%d snapshots, %d pods", snapshots, len(s.ownPods()))
	}
}

// TestGrowthByPioneer: the pool grows by its replicas. The new Machine is the donor, protected from its first second, and only that
// Machine is removed at the end, also if its node never registers, and if an autoscaler grows the pool at the same time.
func TestGrowthByPioneer(t *testing.T) {
	t.Parallel()
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		s, seen := newGrowth(t), false
		s.hears = func(what string) {
			if what != "ProtectFromScaleIn: PATCH machines" || seen {
				return
			}
			seen = true
			p := s.prototype()
			added := s.addedMachine()
			if p.Spec.Donor.ProviderID != string(instanceOf(added)) {
				t.Errorf("the donor is %+v, want Machine %s", p.Spec.Donor, added.GetName())
			}
			at := slices.IndexFunc(s.all(), func(n corev1.Node) bool { return n.Name == p.Spec.Donor.NodeName })
			if n := s.all()[at]; !n.Spec.Unschedulable || n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] != "true" {
				t.Errorf("the new node is cordoned: %t, with annotations %v", n.Spec.Unschedulable, n.Annotations)
			}
			s.must(s.objects.Delete(t.Context(), p))
		}
		if p := s.play(); p != nil || !seen {
			t.Fatalf("the new Machine was protected: %t. %s", seen, verdict(p))
		}
		s.wantFormerPool(2)
	})
	t.Run("beside an autoscaler", func(t *testing.T) {
		t.Parallel()
		s, struck := newGrowth(t), ""
		s.hears = func(what string) {
			switch {
			case what == "SetCapacity: PATCH machinedeployments" && struck == "":
				struck = "grown"
			case what == "Pool" && struck == "grown":
				struck = "scaled"
				s.scale(1)
				s.stirred = true
			case what == "ProtectFromScaleIn: PATCH machines" && struck == "scaled":
				struck = "deleted"
				s.must(s.objects.Delete(t.Context(), s.prototype()))
			}
		}
		if p := s.play(); p != nil || struck != "deleted" {
			t.Fatalf("the last event is %q. %s", struck, verdict(p))
		}
		s.wantFormerPool(3)
	})
	t.Run("without a node", func(t *testing.T) {
		t.Parallel()
		s := newGrowth(t)
		s.lonely = true
		s.made.silent.Store(s.namespace, true)
		if p := s.play(); p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != string(plan.AddedNodeNotJoined.Public()) {
			t.Fatal(verdict(p))
		}
		s.wantFormerPool(2)
	})
}
