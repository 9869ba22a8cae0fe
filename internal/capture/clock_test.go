package capture

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/capture/admission"
)

// heartbeat is the donor's Lease, renewed by a clock that is so far ahead, and written so long ago.
func (s *testEnv) heartbeat(ahead, ago time.Duration) {
	written := s.clock.Now().Add(-ago)
	renewed, at := metav1.NewMicroTime(written.Add(ahead)), metav1.NewTime(written)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: donorName, Namespace: corev1.NamespaceNodeLease, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &at}},
	}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	s.must(s.objects.Add(lease))
}

// TestADonorsClockIsComparedBeforehand: a proof that seems too old fails a capture only after the drain.
func TestADonorsClockIsComparedBeforehand(t *testing.T) {
	s := newTestEnv(t).decide()
	s.heartbeat(-15*time.Minute, 5*time.Second)
	s.refused(admission.DonorClockOff, "15m0s behind the API server's")
}
