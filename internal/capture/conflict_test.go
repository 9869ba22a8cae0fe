package capture

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestSomebodySetsAnImageMeanwhile: what the recipe names then is left as it is, and told; the version stays.
func TestSomebodySetsAnImageMeanwhile(t *testing.T) {
	s := inFull(t)
	changed := false
	p := s.play(func(int) {
		if now := s.prototype(); !changed && now != nil && now.Status.Phase == v1alpha1.PhasePublishing {
			s.cloud.ChangeRecipe(s.pool, "theirs", "customData")
			changed = true
		}
	})
	s.failed(p, "RecipeChanged")
	s.gaveBack()
	if !strings.Contains(p.Status.Failure.Message, "theirs") || !strings.Contains(p.Status.Failure.Message, "kamino promote pool1 2026.03.14") {
		t.Errorf("it says %q", p.Status.Failure.Message)
	}
	if got := s.cloud.World().Pools[0].Recipe.Image; got != "theirs" {
		t.Errorf("the recipe names %s", got)
	}
	if image, err := s.cloud.Image(t.Context(), s.ref(p)); err != nil || image.State != cloud.Complete {
		t.Errorf("the version is %s, %v", image.State, err)
	}
}
