package print

import (
	"fmt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// patchOf describes the patch of a pioneer, and the pending patches before the patch.
func patchOf(p *v1alpha1.Prototype, pending *v1alpha1.PatchesStatus) [][2]string {
	var rows [][2]string
	if pending != nil && pending.Reason == "" {
		count := fmt.Sprintf("%s, %d for security", wording.Count(int(pending.Packages), "package"), pending.Security)
		rows = append(rows, [2]string{"Pending", count + ": " + wording.Names(pending.Names)})
		if len(pending.CVEs) > 0 {
			rows = append(rows, [2]string{"CVEs", wording.Names(pending.CVEs)})
		}
	}
	if p.Spec.Pioneer != nil && *p.Spec.Pioneer.Defaulted().QuietNodes {
		rows = append(rows, [2]string{"Quiet nodes", "the image masks apt-daily, dnf-automatic and unattended-upgrades"})
	}
	s := p.Status.Patch
	if s == nil {
		return rows
	}
	if !s.StartedAt.IsZero() {
		took := "began at " + stamp(s.StartedAt.Time)
		if !s.FinishedAt.IsZero() {
			took += ", took " + wording.Duration(s.FinishedAt.Sub(s.StartedAt.Time))
		}
		rows = append(rows, [2]string{"Time", took})
	}
	if s.Result != "" {
		rows = append(rows, [2]string{"Installed", wording.Count(int(s.Installed), "package")})
	}
	if s.Level != "" {
		rows = append(rows, [2]string{"Level", s.Level})
	}
	if s.Problem != "" {
		rows = append(rows, [2]string{"Problem", s.Problem})
	}
	if s.Failure != "" {
		rows = append(rows, [2]string{"Failure", s.Failure})
	}
	if s.FailedLevel != "" {
		rows = append(rows, [2]string{"Failed level", s.FailedLevel})
	}
	return rows
}
