package policy

import (
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// ended tells one state of a Prototype from another, as far as a decision about its own pool depends on it.
func ended(p *v1alpha1.Prototype) string {
	return fmt.Sprintf("%s/%s/%t/%t", p.Name, p.UID, p.Status.Terminal(), p.Status.Phase == v1alpha1.PhaseSucceeded)
}

// State tells one state of a Prototype from another, as far as any decision depends on it: its end, and its donor's
// return, which lets another capture begin. Whatever else changes in it was written by the engine on the way.
func State(p *v1alpha1.Prototype) string {
	return fmt.Sprintf("%s/%t", ended(p), HoldsDonor(p))
}

// News tells whether what changed in a Prototype may change a decision.
func News(before, after *v1alpha1.Prototype) bool { return State(before) != State(after) }
