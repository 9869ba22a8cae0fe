package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
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

// TestVersionOfAQuarantinedAncestorWaits: if a version that the donor descends from is quarantined during the capture, a person decides
// about the version of the capture. Cleared, it is promoted. Quarantined too, or without a decision, the capture fails. The recipe does
// not name it before.
func TestVersionOfAQuarantinedAncestorWaits(t *testing.T) {
	const ancestor = "2026.02.20"
	for name, test := range map[string]struct {
		tags   map[string]string
		reason string
	}{
		"no one decides":      {nil, string(plan.PromotionStale)},
		"cleared":             {map[string]string{cloud.TagCleared: ancestor}, ""},
		"cleared of another":  {map[string]string{cloud.TagCleared: "2026.03.01"}, string(plan.PromotionStale)},
		"quarantined as well": {map[string]string{cloud.TagQuarantined: "too"}, string(plan.Quarantined)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.lineage = "2026.03.01" }).decide(func(p *v1alpha1.Prototype) {
				p.Spec.Settings.Promotion.Timeout = metav1.Duration{Duration: 20 * time.Minute}
			})
			tag := func(version string, tags map[string]string) {
				s.must(s.cloud.TagImage(t.Context(), cloud.ImageRef{Pool: s.pool, Version: version}, tags))
			}
			s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: ancestor, Tags: ours()})
			tag(s.lineage, map[string]string{cloud.TagLineage: ancestor})
			waited := false
			p := s.play(func(int) {
				switch p := s.prototype(); p.Status.Phase {
				case v1alpha1.PhasePublishing:
					tag(ancestor, map[string]string{cloud.TagQuarantined: "panics"})
				case v1alpha1.PhaseAwaitingPromotion:
					if named := s.cloud.World().Pools[0].Recipe.Version; named != s.lineage {
						t.Errorf("the recipe names %s", named)
					}
					ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
					if want := "the quarantined version " + ancestor; ready == nil || !strings.Contains(ready.Message, want) {
						t.Errorf("the condition is %+v", ready)
					}
					waited = true
					tag(p.Spec.Version, test.tags)
				default:
				}
			})
			reason := ""
			if p.Status.Failure != nil {
				reason = p.Status.Failure.Reason
			}
			if reason != test.reason || !waited || (reason == "") != (s.cloud.World().Pools[0].Recipe.Version == p.Spec.Version) {
				t.Errorf("the capture waited %t, and ended with %q", waited, reason)
			}
		})
	}
}
