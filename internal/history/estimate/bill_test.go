package estimate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/history/estimate"
)

// TestBill: the workshop is billed for its whole time, the disk from the copy on, and the snapshot while the disk is made of it.
func TestBill(t *testing.T) {
	copied := capture(v1alpha1.PhaseSucceeded, time.Hour, v1alpha1.PhaseStartingWorkshop, 10*time.Minute, v1alpha1.PhaseQuiescing, 5*time.Minute,
		v1alpha1.PhaseCopying, 15*time.Minute, v1alpha1.PhaseGeneralizing, 20*time.Minute, v1alpha1.PhasePublishing, 2*time.Hour)
	copied.Spec.Settings.Donor.Method = v1alpha1.MethodCopy
	instant := copied
	instant.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: copied.Status.Donor.ReservedAt, ReleasedAt: copied.Status.Donor.ReservedAt}
	inPlace := capture(v1alpha1.PhaseSucceeded, time.Hour, v1alpha1.PhaseDraining, time.Minute)
	for name, test := range map[string]struct {
		past   v1alpha1.Prototype
		copies bool
		gb     int64
		want   *estimate.Bill
	}{
		"with a disk":           {copied, true, 20, &estimate.Bill{InstanceType: "m7i.large", InstanceHours: 1, DiskGB: 20, DiskGBHours: 15, SnapshotGBHours: 5}},
		"of unknown size":       {copied, true, 0, &estimate.Bill{InstanceType: "m7i.large", InstanceHours: 1}},
		"before the first copy": {inPlace, true, 20, nil},
		"in place":              {inPlace, false, 20, nil},
		"without a known time":  {instant, true, 20, nil},
	} {
		got := estimate.Of([]v1alpha1.Prototype{test.past}, test.copies).Billed("m7i.large", test.gb).Bill
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if took := (estimate.Bill{InstanceHours: 0.1336}).Instance(); took != 481*time.Second {
		t.Errorf("the workshop runs for %s", took)
	}
}
