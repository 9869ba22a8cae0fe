package capture

import (
	"strings"
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
	for _, c := range []struct {
		name       string
		ahead, ago time.Duration
		says       string
	}{
		{"behind", -15 * time.Minute, 5 * time.Second, "15m0s behind the API server's"},
		{"ahead", 20 * time.Minute, 5 * time.Second, "20m0s ahead of the API server's"},
		{"right", 2 * time.Second, 5 * time.Second, ""},
		{"right, and silent for long", 0, 20 * time.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			s.heartbeat(c.ahead, c.ago)
			p := s.play()
			if c.says == "" {
				s.succeeded(p)
				return
			}
			if p.Status.Failure == nil || p.Status.Failure.Reason != admission.DonorClockOff || !strings.Contains(p.Status.Failure.Message, c.says) {
				t.Fatalf("it is not refused: %s", verdict(p))
			}
			if p.Status.Donor != nil {
				t.Errorf("the donor was taken: %+v", p.Status.Donor)
			}
		})
	}
}
