package reservations

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// PendingReplacement is the open place of a donor that was removed before its replacement joined. The pool is one node short, as
// during a capture.
type PendingReplacement struct {
	// Pool is the pool's ID.
	Pool string
	// Size is the intended number of nodes of the pool.
	Size int64
	// Until is the deadline of the replacement. After the deadline the missing node delays no other capture.
	Until time.Time
}

// PendingReplacementOf returns the vacancy after a Prototype's donor, before or after the end of the capture. The result is false
// if the donor returned or is still reserved, or if its replacement joined first.
func PendingReplacementOf(p *v1alpha1.Prototype) (PendingReplacement, bool) {
	record, err := v1alpha1.RecordOf(p)
	if err != nil || record.Reservation != nil || record.Replacement == nil || p.Status.Donor == nil || p.Status.Donor.ReleasedAt == nil {
		return PendingReplacement{}, false
	}
	d := record.Replacement
	if d.GrowFirst || !d.Removing {
		return PendingReplacement{}, false
	}
	patience := p.Spec.Settings.Defaulted().OutOfService.ReadyTimeout.Duration
	return PendingReplacement{Pool: p.Spec.PoolID, Size: d.Target, Until: p.Status.Donor.ReleasedAt.Add(patience)}, true
}

// Lasts reports whether the place is still open, by the number of the pool's Ready nodes.
func (v PendingReplacement) Lasts(ready int, now time.Time) bool {
	return int64(ready) < v.Size && now.Before(v.Until)
}
