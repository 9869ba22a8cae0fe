package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// A donor that was built from a quarantined version is refused, and nothing is touched.
func TestADonorOfAQuarantinedVersionIsRefused(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.lineage = "2026.03.01" }).decide()
	s.must(s.cloud.TagImage(t.Context(), cloud.ImageRef{Pool: s.pool, Version: s.lineage}, map[string]string{cloud.TagQuarantined: "panics"}))
	s.cloud.ChangeRecipe(s.pool, "generic", "customData", "vmssCSE")
	p := s.play()
	if p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Reason != history.BuiltFromQuarantined {
		t.Errorf("phase %s, failure %+v", p.Status.Phase, p.Status.Failure)
	}
	if world := s.cloud.World(); len(world.Images) != 1 || world.Count(memory.ByCaller, memory.EffectProtect, "") != 0 {
		t.Errorf("something was done: %+v", world.Effects)
	}
}

// A version that an instance was built from outlives the number of versions to keep; its neighbours do not. A lost answer of
// a deletion changes nothing, although the cloud is still deleting the version at the end of the capture.
func TestVersionInUseIsNotRetired(t *testing.T) {
	for _, lose := range []string{"", "DeleteImage"} {
		t.Run("lost "+lose, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.lineage = "2026.03.01" }).decide()
			for _, version := range []string{"2026.02.01", "2026.03.02", "2026.03.03", "2026.03.04"} {
				s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version, Tags: ours()})
			}
			s.lose = func(what string) memory.Outcome {
				if lose != "" && strings.Contains(what, lose) {
					return memory.FailAfter(cloud.Unavailable)
				}
				return memory.Pass()
			}
			p := s.play()
			s.succeeded(p)
			if want := []string{"2026.02.01", "2026.03.02"}; !slices.Equal(p.Status.Retired, want) {
				t.Errorf("retired %v, want %v", p.Status.Retired, want)
			}
		})
	}
}

// TestLineage: a version names the version of its donor, also if the process ends after any call, of which every fifth is tried. A
// donor of a generic image has no such version.
func TestLineage(t *testing.T) {
	for _, lineage := range []string{"", "2026.03.01"} {
		t.Run(fmt.Sprintf("%q", lineage), func(t *testing.T) {
			memory.Courses{Losses: crashesAfter, Least: 9, Choose: each(5, 0), Play: func(t *testing.T, schedule *memory.Schedule) {
				s := newTestEnv(t, func(s *testEnv) { s.lineage = lineage }).decide()
				s.schedule = schedule
				p := s.play()
				s.succeeded(p)
				image, err := s.cloud.Image(t.Context(), s.ref(p))
				s.must(err)
				if got, tagged := image.Tags[cloud.TagLineage]; got != lineage || tagged != (lineage != "") {
					t.Errorf("the version's lineage is %q (%t), want %q", got, tagged, lineage)
				}
			}}.LoseEach(t)
		})
	}
}
