package nodepatch

import (
	"fmt"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/patch"
)

// Limits of a summary. The counts cover all patches.
const (
	maxNames = 20
	maxCVEs  = 20
)

// Summary is the short form of the report of a check. "Could not check" has a reason, and never looks like "no patch".
func Summary(r *patch.Report, at metav1.Time) v1alpha1.PendingPatches {
	s := v1alpha1.PendingPatches{CheckedAt: at}
	if !r.Complete() {
		s.Reason, s.Message = problemOf(r)
		return s
	}
	s.Set = r.PendingSet()
	s.Packages, s.Security = number(max(r.Counts.Pending, len(r.Pending))), number(r.Counts.Security)
	var cves []string
	changes := slices.Clone(r.Pending)
	slices.SortStableFunc(changes, func(a, b patch.Change) int { return rank(a) - rank(b) })
	for _, c := range changes {
		cves = append(cves, c.CVEs...)
		if len(s.Names) < maxNames {
			s.Names = append(s.Names, named(c))
		}
	}
	slices.Sort(cves)
	cves = slices.Compact(cves)
	slices.Reverse(cves) // the newest first
	s.CVECount, s.CVEs = number(len(cves)), slices.Clip(cves[:min(len(cves), maxCVEs)])
	return s
}

// rank sorts security patches before others.
func rank(c patch.Change) int {
	if c.Security {
		return 0
	}
	return 1
}

func named(c patch.Change) string {
	if c.From == "" {
		return fmt.Sprintf("%s %s", c.Name, c.To)
	}
	return fmt.Sprintf("%s %s to %s", c.Name, c.From, c.To)
}

func number(n int) int32 { return int32(min(n, math.MaxInt32)) }

// problemOf returns why a report is not complete.
func problemOf(r *patch.Report) (reason, message string) {
	if r.Failure != nil {
		return string(r.Failure.Reason), r.Failure.Message
	}
	for _, repository := range r.Repositories {
		if !repository.Read {
			return string(patch.RepositoryNotRead), fmt.Sprintf("repository %s was not read: %s", repository.ID, repository.Problem)
		}
	}
	return string(patch.Interrupted), fmt.Sprintf("the package manager is %s", r.Health)
}
