package estimate

import (
	"math"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Bill is what the cloud bills for a capture by copy besides its image: a workshop, a copy of the donor's disk, and the snapshot between
// them. Disk and snapshot are upper limits: a cloud bills only the used blocks of a snapshot. Kamino knows no prices.
type Bill struct {
	// InstanceType of the workshop, in the words of the cloud; empty if unknown.
	InstanceType  string  `json:"instanceType,omitempty"`
	InstanceHours float64 `json:"instanceHours"`
	// DiskGB is the size of the donor's disk in GiB; 0 if unknown, as then are the GiB-hours of disk and snapshot.
	DiskGB          int64   `json:"diskGB,omitempty"`
	DiskGBHours     float64 `json:"diskGBHours,omitempty"`
	SnapshotGBHours float64 `json:"snapshotGBHours,omitempty"`
}

// Billed returns the estimate with the bill of a workshop of a type and a disk of a size, if a capture by copy has succeeded.
func (e Estimate) Billed(instanceType string, diskGB int64) Estimate {
	if e.WorkshopSeconds == 0 {
		return e
	}
	took := map[v1alpha1.Phase]int64{}
	for _, s := range e.Steps {
		took[s.Phase] = s.Seconds
	}
	// Copying begins with the snapshot, and ends with the attached copy.
	disk := max(e.WorkshopSeconds-took[v1alpha1.PhaseStartingWorkshop]-took[v1alpha1.PhaseQuiescing], 0)
	e.Bill = &Bill{InstanceType: instanceType, InstanceHours: hours(e.WorkshopSeconds), DiskGB: diskGB,
		DiskGBHours: hours(disk * diskGB), SnapshotGBHours: hours(took[v1alpha1.PhaseCopying] * diskGB)}
	return e
}

// Instance returns how long the workshop runs.
func (b Bill) Instance() time.Duration {
	return time.Duration(math.Round(b.InstanceHours*3600)) * time.Second
}

// hours rounds to a ten-thousandth of an hour, which is less than a second.
func hours(seconds int64) float64 { return math.Round(float64(seconds)/0.36) / 10000 }
