package trial

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Reboot is the second boot of the trial node, by a restart of its instance. A disk may boot once and not again: fstab, the initramfs, mounts,
// and what cloud-init does on the first boot only.
type Reboot struct {
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

// rebooted is the last check. It begins when every other check has passed.
func rebooted(f Facts) (Result, string) {
	switch b := f.Reboot; {
	case b.Skipped != "":
		return Skipped, "the node did not boot a second time: " + b.Skipped
	case b.isDue():
		return Pending, "every other check has passed, and the cloud restarts the instance"
	case !b.Back.IsZero():
		return Passed, fmt.Sprintf("node %s was Ready again %s after the restart of its instance", f.Node, span(b.Back.Sub(b.Accepted)))
	case f.since(b.Accepted) <= f.Limits.Reboot:
		return Pending, fmt.Sprintf("the instance restarts, and node %s is awaited", f.Node)
	case f.Ready && !b.Booted:
		return Inconclusive, fmt.Sprintf("the cloud accepted a restart of the instance, and node %s still reports the same boot %s later; "+
			"to go without a second boot, set settings.trial.reboot to false", f.Node, span(f.Limits.Reboot))
	default:
		return Failed, fmt.Sprintf("node %s is not Ready %s after the restart of its instance: the disk boots once, and not again", f.Node, span(f.Limits.Reboot))
	}
}
