package held

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Vacancy is the place of a donor that was removed before its successor was there. Until it is filled, its pool is as short of
// a node as if the capture held one.
type Vacancy struct {
	// Pool is its ID.
	Pool string
	// Size is how many nodes the pool is to have.
	Size int64
	// Until is when the successor is late: from then on it is a matter of the pool's, and keeps no other capture waiting.
	Until time.Time
}

// VacancyOf is that of a Prototype's donor, whether the capture has ended or not; false if there is none, because the donor
// returned, is still held, or was taken behind its successor.
func VacancyOf(p *v1alpha1.Prototype) (Vacancy, bool) {
	record, err := v1alpha1.RecordOf(p)
	if err != nil || record.Reservation != nil || record.Departure == nil || p.Status.Donor == nil || p.Status.Donor.ReleasedAt == nil {
		return Vacancy{}, false
	}
	d := record.Departure
	if d.GrowFirst || !d.Removing {
		return Vacancy{}, false
	}
	patience := p.Spec.Settings.Defaulted().OutOfService.ReadyTimeout.Duration
	return Vacancy{Pool: p.Spec.PoolID, Size: d.Target, Until: p.Status.Donor.ReleasedAt.Add(patience)}, true
}

// Lasts tells whether the place is still empty, by how many of the pool's nodes are Ready.
func (v Vacancy) Lasts(ready int, now time.Time) bool {
	return int64(ready) < v.Size && now.Before(v.Until)
}
