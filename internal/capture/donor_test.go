package capture

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// TestDonorTimeAfterALostStatus: the step of the reservation only refines the second of the reservation. A later controller may
// begin the step again.
func TestDonorTimeAfterALostStatus(t *testing.T) {
	for began, want := range map[time.Duration]time.Duration{
		300 * time.Millisecond: 300 * time.Millisecond, 5 * time.Minute: 0, -5 * time.Minute: 0,
	} {
		w := &pass{p: &v1alpha1.Prototype{}, donor: donorObjects{reservation: &v1alpha1.Reservation{ReservedAt: metav1.NewTime(noon)}}}
		w.facts.Hold.Lock = plan.Ours
		w.p.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseReserving, StartedAt: metav1.NewMicroTime(noon.Add(began))}}
		reportDonor(w, noon.Add(time.Hour))
		if d := w.p.Status.Donor; d == nil || d.ReservedAt.Sub(noon) != want {
			t.Errorf("the step began %s after the reservation: %+v, want %s", began, d, want)
		}
	}
}
