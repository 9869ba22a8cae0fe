package cloudtest

import (
	"errors"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var upgradeCases = []testCase{
	{"a pool that would roll a new recipe out is refused, whenever that was set", setRecipeWouldRoll},
	{"a pool that would roll a new size out is refused", setCapacityWouldRoll},
}

// rolling sets the pool's policy to automatic updates of running instances, and returns a function that resets the
// policy.
func (s suite) rolling(t *testing.T) (repair func()) {
	t.Helper()
	if s.SetUpgrades == nil {
		t.Skip("the harness's pools have no policy that changes running instances")
	}
	s.SetUpgrades(t, true)
	return func() { s.SetUpgrades(t, false) }
}

func setRecipeWouldRoll(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	s.start(t, s.a)
	// The change is made before the policy changes: the write itself must check the policy.
	change := s.change(t, firstVersion, true)
	if len(change.Refusals) > 0 {
		t.Fatalf("a pool that can be pointed at a version says %+v", change.Refusals)
	}
	repair := s.rolling(t)
	before, recipe := s.instances(t), s.recipe(t)
	wantRefusal(t, s.p.SetRecipe(t.Context(), change))
	reported := s.change(t, firstVersion, true)
	if len(reported.Refusals) == 0 || reported.Refusals[0].Reason == "" || reported.Refusals[0].Message == "" {
		t.Errorf("a change that would be refused says %+v", reported.Refusals)
	}
	for range 3 {
		s.Advance(t)
		wantSame(t, "a refused recipe changed an instance", before, s.instances(t))
	}
	wantSame(t, "a refused change changed the recipe", recipe, s.recipe(t))
	repair()
	must(t, s.p.SetRecipe(t.Context(), change))
	s.wantRecipe(t, change)
}

func setCapacityWouldRoll(t *testing.T, s suite) {
	s.start(t, s.a)
	repair := s.rolling(t)
	before, size := s.instances(t), s.capacity(t)
	wantRefusal(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1))
	s.Advance(t)
	wantSame(t, "a refused size changed an instance", before, s.instances(t))
	repair()
	must(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1))
}

// wantRefusal requires a refusal with reason and text.
func wantRefusal(t *testing.T, err error) {
	t.Helper()
	wantError(t, err, cloud.Refused)
	var refused *cloud.Error
	if errors.As(err, &refused) && (refused.Code == "" || refused.Message == "") {
		t.Errorf("the refusal %q has no reason or no sentence", err)
	}
}
