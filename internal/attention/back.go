package attention

import (
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Back says when a donor out of service is back.
type Back struct {
	// Deadline is the time without a snapshot at which the capture fails; zero after the snapshot. Latest is the time at
	// which Kamino releases the donor in any case; zero if unknown.
	Deadline, Latest time.Time
}

// beforeSnapshot are the phases of a donor out of service without a snapshot.
var beforeSnapshot = []v1alpha1.Phase{
	v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting,
}

// patching are the phases of a pioneer, whose deadlines begin afterwards.
var patching = []v1alpha1.Phase{v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking}

// isHeld reports whether the donor of a running capture is out of service. A donor whose disk is copied serves.
func isHeld(p *v1alpha1.Prototype) bool {
	d := p.Status.Donor
	return !p.Status.Terminal() && !p.Spec.Settings.CopiesDonor() && d != nil && d.ReservedAt != nil && d.ReleasedAt == nil
}

// BackInService says when the donor of a capture is back in service at the latest, while a process works on the capture;
// zero for a donor in service, and for a pioneer that is being patched.
func BackInService(p *v1alpha1.Prototype) Back {
	if !isHeld(p) || slices.Contains(patching, p.Status.Phase) {
		return Back{}
	}
	if v1alpha1.ReplacesDonor(p) { // of an earlier version, which alone can end the capture
		return Back{}
	}
	limit := p.Spec.Settings.Defaulted().OutOfService
	back := Back{Latest: p.Status.Donor.ReservedAt.Add(limit.Deadline.Duration + limit.ReadyTimeout.Duration)}
	if slices.Contains(beforeSnapshot, p.Status.Phase) && p.Status.Failure == nil {
		back.Deadline = p.Status.Donor.ReservedAt.Add(limit.Deadline.Duration)
	}
	return back
}

// Text says when the donor is back at the latest, and what happens then; empty if unknown.
func (b Back) Text(now time.Time) string {
	switch {
	case b.Latest.IsZero():
		return ""
	case !b.Deadline.IsZero() && b.Deadline.After(now):
		return fmt.Sprintf("without a snapshot at %s the capture fails, and the node is back by %s at the latest",
			When(b.Deadline, now), Clock(b.Latest, now))
	case b.Latest.After(now):
		return fmt.Sprintf("the node is back by %s at the latest", When(b.Latest, now))
	}
	return fmt.Sprintf("the node had to be back by %s", When(b.Latest, now))
}
