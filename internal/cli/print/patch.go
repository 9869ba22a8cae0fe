package print

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// patchOf describes the patch of a pioneer.
func patchOf(p *v1alpha1.Prototype) [][2]string {
	s := p.Status.Patch
	if s == nil {
		return nil
	}
	var rows [][2]string
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
	return rows
}
