package nodepatch

import (
	"cmp"
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/patch/plan"
)

// FailedSet returns the patches of a pioneer, and why the patches are bad. The message is empty for a pioneer that runs,
// succeeded, or failed for another cause. quarantined: the version of the pioneer is quarantined.
func FailedSet(p *v1alpha1.Prototype, quarantined bool) (set, message string) {
	set = p.Status.PatchSet
	if s := p.Status.Patch; s != nil {
		set = cmp.Or(set, s.Set)
	}
	switch {
	case quarantined:
		return set, fmt.Sprintf("version %s is quarantined", p.Spec.Version)
	case p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil:
		return set, ""
	case p.Status.Patch != nil && blames(p.Status.Patch), p.Status.Trial != nil && p.Status.Trial.Result == v1alpha1.TrialFailed:
		return set, p.Status.Failure.Message
	}
	return set, ""
}

// blames reports whether a failed patch is the likely fault of the patches.
func blames(s *v1alpha1.PatchStatus) bool {
	return s.FailedLevel != "" || plan.Reason(s.Failure).Blames() || plan.Reason(s.Failure) == plan.LevelQuarantined
}
