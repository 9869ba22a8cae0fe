package capture

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestTheLeaseNamesTheBootWhenThePodIsMade: a client removes the Lease, and only the Node repeats the record. The Lease
// is written again before the pod is created.
func TestTheLeaseNamesTheBootWhenThePodIsMade(t *testing.T) {
	s := newTestEnv(t).decide()
	removed, made := false, 0
	s.lose = func(what string) memory.Outcome {
		record := s.record()
		if what != "create pods/" || record.GeneralizeBootID == "" {
			return memory.Pass()
		}
		if !removed {
			removed = true
			s.unlease()
			return memory.CrashBefore()
		}
		made++
		if got := s.leased(); got.GeneralizeBootID != record.GeneralizeBootID {
			t.Errorf("when the pod is made the Lease names boot %q, want %q", got.GeneralizeBootID, record.GeneralizeBootID)
		}
		return memory.Pass()
	}
	s.succeeded(s.play())
	if !removed || made != 1 {
		t.Errorf("the Lease was removed: %t; the pod was made %d times", removed, made)
	}
}

// leased is the reservation of the donor by its Lease.
func (s *testEnv) leased() v1alpha1.Reservation {
	s.t.Helper()
	names := s.leases()
	if len(names) != 1 {
		s.t.Fatalf("there are the Leases %v", names)
	}
	object, err := s.objects.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), ourspace, names[0])
	s.must(err)
	r, err := v1alpha1.ReservationOf(object.(metav1.Object).GetAnnotations())
	s.must(err)
	return *r
}

// TestReservationIsRestoredAfterPublication: during the publication, Node and Lease carry the capture's reservation again, and the
// node is released again before the next action.
func TestReservationIsRestoredAfterPublication(t *testing.T) {
	s := newTestEnv(t).decide()
	text, struck := "", false
	s.lose = func(what string) memory.Outcome {
		if n := s.tracked("nodes", "", donorName).(*corev1.Node); strings.HasPrefix(what, "DeleteSnapshot ") &&
			n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			t.Error("the capture goes on, and its donor is reserved")
		}
		return memory.Pass()
	}
	p := s.play(func(int) {
		n := s.tracked("nodes", "", donorName).(*corev1.Node)
		switch now := n.Annotations[v1alpha1.ReservationAnnotation]; {
		case struck:
		case now != "":
			text = now
		case s.prototype().Status.Phase == v1alpha1.PhasePublishing:
			struck = true
			s.lease(text)
			s.onNode(func(n *corev1.Node) {
				n.Annotations[v1alpha1.ReservationAnnotation], n.Spec.Unschedulable = text, true
			})
		}
	})
	if !struck {
		t.Fatal("the version was never made")
	}
	s.succeeded(p)
}

// TestCordonedDonorIsProtectedBeforeDrain, also by a pass that begins with a reserved donor.
func TestCordonedDonorIsProtectedBeforeDrain(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.cordoned = true }).decide()
	evicted := 0
	s.lose = func(what string) memory.Outcome {
		if what == "create pods/eviction" {
			if evicted++; !s.cloud.World().Instance(s.donor).ScaleInProtected {
				t.Error("a pod is evicted, and the pool may remove the donor")
			}
		}
		return memory.Pass()
	}
	s.succeeded(s.play())
	if evicted == 0 {
		t.Error("no pod was evicted")
	}
}
