package capture

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func instant(s *testEnv) { s.instant = true }

// copies returns the state of the only snapshot.
func (s *testEnv) copies() cloud.State {
	s.t.Helper()
	all := s.cloud.World().Snapshots
	if len(all) != 1 {
		s.t.Fatalf("there are %d snapshots", len(all))
	}
	return all[0].State
}

// TestDonorReturnsBeforeCopyIsComplete: if a snapshot is fixed at its request, the donor serves while the cloud
// writes the copy. No image is made before the copy is complete.
func TestDonorReturnsBeforeCopyIsComplete(t *testing.T) {
	s := newTestEnv(t, instant).decide()
	back := false
	p := s.play(func(int) {
		if p := s.prototype(); !back && p.Status.Donor != nil && p.Status.Donor.ReleasedAt != nil {
			back = true
			if state := s.copies(); state != cloud.Pending || len(s.cloud.World().Images) != 0 {
				t.Errorf("when the donor was back the snapshot was %s, and there were %d images", state, len(s.cloud.World().Images))
			}
		}
	})
	s.succeeded(p)
	var phases []v1alpha1.Phase
	for _, step := range p.Status.Steps {
		phases = append(phases, step.Phase)
	}
	want := []v1alpha1.Phase{
		v1alpha1.PhasePreflight,
		v1alpha1.PhaseReserving,
		v1alpha1.PhaseDraining,
		v1alpha1.PhaseGeneralizing,
		v1alpha1.PhaseStopping,
		v1alpha1.PhaseSnapshotting,
		v1alpha1.PhaseStarting,
		v1alpha1.PhaseReleasing,
		v1alpha1.PhasePublishing,
		v1alpha1.PhasePromoting,
	}
	if diff := cmp.Diff(want, slices.Compact(phases)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if took := p.Status.Donor.ReleasedAt.Sub(p.CreationTimestamp.Time); took > 2*time.Minute {
		t.Errorf("the donor was back after %s, and a snapshot takes 3 minutes", took)
	}
}

// TestFailedCopyAfterDonorReturned: the donor is back, and stays so.
func TestFailedCopyAfterDonorReturned(t *testing.T) {
	s := newTestEnv(t, instant).decide()
	s.cloud.FailSnapshots(1)
	s.failed(s.play(), string(plan.SnapshotFailed))
	if w := s.cloud.World(); w.Instance(s.donor).Boots != 2 || len(w.Images) != 0 || len(w.Snapshots) != 0 {
		t.Errorf("%d boots of the donor, %d images, %d snapshots", w.Instance(s.donor).Boots, len(w.Images), len(w.Snapshots))
	}
}
