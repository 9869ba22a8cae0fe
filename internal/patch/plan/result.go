package plan

import "github.com/kamino-dev/kamino/internal/patch"

// ResultOf returns the result of a patch from its report. An unknown need of a reboot is a need.
func ResultOf(r *patch.Report) Result {
	changed := r.Before != r.After
	switch {
	case r.Complete() && !changed && r.Reboot.Need == patch.NotNeeded:
		return Current
	case r.Complete():
		return Patched
	case changed, len(r.Failed) > 0, r.Health == patch.Broken, r.Health == patch.HealthInterrupted:
		return Incomplete
	case r.Failure != nil && (r.Failure.Reason == patch.InstallFailed || r.Failure.Reason == patch.NodeFailed):
		return Incomplete // the report does not show that nothing changed
	}
	return Refused
}
