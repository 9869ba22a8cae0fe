package capture

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestMissingObjectOfRecipe: after the donor's return, a client deletes an object that the version or the recipe
// needs. The capture reports the loss, and continues once the object exists.
func TestMissingObjectOfRecipe(t *testing.T) {
	for name, test := range map[string]struct {
		phase v1alpha1.Phase
		take  func(s *testEnv) (back func())
		says  string
	}{
		"the gallery of the version":                   {v1alpha1.PhaseSnapshotting, absent("EnsureImage"), "image"},
		"what the change is read from":                 {v1alpha1.PhasePublishing, absent("RecipeChange"), "recipe"},
		"what the change is written to":                {v1alpha1.PhasePublishing, absent("SetRecipe"), "recipe"},
		"the launch template, so that it names no one": {v1alpha1.PhasePublishing, imageless, "no longer names an image"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			var back func()
			waited := 0
			p := s.play(func(int) {
				p := s.prototype()
				switch stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled); {
				case back == nil && p.Status.Phase == test.phase:
					back = test.take(s)
				case back == nil || p.Status.Terminal():
				case stalled != nil && stalled.Status == metav1.ConditionTrue:
					if stalled.Reason != string(cloud.NotFound) || !strings.Contains(stalled.Message, test.says) ||
						!strings.Contains(stalled.Message, "continues automatically") {
						t.Errorf("%+v", stalled)
					}
					if waited++; waited == 3 {
						back()
					}
				}
			})
			s.succeeded(p)
			if waited < 3 {
				t.Errorf("it was said %d times that it waits", waited)
			}
		})
	}
}

// absent has a call of the cloud find that something does not exist.
func absent(op string) func(*testEnv) func() {
	return func(s *testEnv) func() {
		s.lose = func(what string) memory.Outcome {
			if strings.HasPrefix(what, op+" ") {
				return memory.FailBefore(cloud.NotFound)
			}
			return memory.Pass()
		}
		return func() { s.lose = nil }
	}
}

// imageless is a pool whose recipe can't be read, as of a group whose launch template was deleted.
func imageless(s *testEnv) func() {
	pool, err := s.cloud.Pool(s.t.Context(), s.pool)
	s.must(err)
	s.cloud.ChangeRecipe(s.pool, "", pool.Recipe.Bootstrap...)
	return func() { s.cloud.ChangeRecipe(s.pool, pool.Recipe.Image, pool.Recipe.Bootstrap...) }
}
