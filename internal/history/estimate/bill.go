package estimate

import (
	"cmp"
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

// TrialBill is what the cloud bills for the trial on a further machine type.
type TrialBill struct {
	MachineType   string  `json:"machineType"`
	InstanceHours float64 `json:"instanceHours"`
	// IsLeast: no trial has ended in this cluster, so that the time is only that of the soak.
	IsLeast bool `json:"isLeast,omitempty"`
}

// Tried returns the estimate with the bills of the trials on further machine types.
func (e Estimate) Tried(s v1alpha1.Settings) Estimate {
	if s = s.Defaulted(); !s.HasTrial() {
		return e
	}
	seconds := cmp.Or(e.TrialSeconds, int64(s.Trial.Soak.Seconds()))
	for _, kind := range s.Trial.MachineTypes {
		e.Trials = append(e.Trials, TrialBill{MachineType: kind, InstanceHours: hours(seconds), IsLeast: e.TrialSeconds == 0})
	}
	return e
}

// Instance returns how long the trial's instance runs.
func (b TrialBill) Instance() time.Duration { return Bill{InstanceHours: b.InstanceHours}.Instance() }

// hours rounds to a ten-thousandth of an hour, which is less than a second.
func hours(seconds int64) float64 { return math.Round(float64(seconds)/0.36) / 10000 }
