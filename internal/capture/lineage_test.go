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
			s.lose = func(_ int, what string) memory.Outcome {
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

// A version names the version of its donor, for any lost call of the capture. A donor of a generic image has no
// such version.
func TestLineage(t *testing.T) {
	for _, lineage := range []string{"", "2026.03.01"} {
		for _, lost := range []int{-1, 5, 10, 12, 14, 16, 18, 20, 30, 40} {
			t.Run(fmt.Sprintf("%q lost %d", lineage, lost), func(t *testing.T) {
				s := newTestEnv(t, func(s *testEnv) { s.lineage = lineage }).decide()
				s.lose = func(n int, _ string) memory.Outcome {
					if n == lost {
						return memory.CrashAfter()
					}
					return memory.Pass()
				}
				p := s.play()
				s.succeeded(p)
				found := false
				for _, image := range s.cloud.World().Images {
					if image.Version == p.Spec.Version {
						found = true
						if got, tagged := image.Tags[cloud.TagLineage]; got != lineage || tagged != (lineage != "") {
							t.Errorf("the version's lineage is %q (%t), want %q", got, tagged, lineage)
						}
					}
				}
				if !found {
					t.Error("there is no version")
				}
			})
		}
	}
}
