package policy

import (
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// ended is a fingerprint of a Prototype, as far as a decision about the Prototype's pool depends on the Prototype.
func ended(p *v1alpha1.Prototype) string {
	return fmt.Sprintf("%s/%s/%t/%t", p.Name, p.UID, p.Status.Terminal(), p.Status.Phase == v1alpha1.PhaseSucceeded)
}

// State is a fingerprint of a Prototype, as far as any decision depends on the Prototype: the end of the capture, and the
// return of the donor, after which another capture may begin.
func State(p *v1alpha1.Prototype) string {
	return fmt.Sprintf("%s/%t", ended(p), HoldsDonor(p))
}

// News reports whether the change of a Prototype may change a decision.
func News(before, after *v1alpha1.Prototype) bool { return State(before) != State(after) }
