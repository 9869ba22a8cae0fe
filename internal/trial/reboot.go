package trial

import (
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Reboot is the second boot of the trial node, by a restart of its instance. A disk may boot once and not again: fstab, the initramfs, mounts,
// and what cloud-init does on the first boot only.
type Reboot struct {
	// Boot is the Node's boot ID.
	Boot string
	// Skipped is why there is no second boot; else empty.
	Skipped string
	// Decided is true from the record of the decision on, and Accepted the time at which the cloud accepted the restart.
	Decided  bool
	Accepted time.Time
	// Booted is true if the node reports another boot than at the decision. Back is when it was Ready in that boot; zero before.
	Booted bool
	Back   time.Time
}

// RebootOf returns the restart in the record of an attempt.
func RebootOf(r *v1alpha1.TrialRecord, wanted bool) (b Reboot) {
	if !wanted {
		b.Skipped = "settings.trial.reboot is false"
	}
	if r.Reboot == nil {
		return b
	}
	b.Decided, b.Skipped = true, r.Reboot.Skipped
	if at := r.Reboot.AcceptedAt; at != nil {
		b.Accepted = at.Time
	}
	return b
}

// isUnderWay reports whether the node is between two boots. The other checks then wait, because they would blame the node for it.
func (b Reboot) isUnderWay() bool { return b.Decided && b.Skipped == "" && b.Back.IsZero() }

// isDue reports whether the restart must be recorded, or the cloud asked for it.
func (b Reboot) isDue() bool { return b.Skipped == "" && b.Accepted.IsZero() }
