package cloudtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var capacityCases = []testCase{
	{"new instances are built from the version that the recipe names", newInstances},
}

func (s suite) capacity(t *testing.T) int64 {
	t.Helper()
	return got(s.p.Pool(t.Context(), s.Pool))(t).Capacity
}

// grow adds an instance to the pool, as the user's client does.
func (s suite) grow(t *testing.T) {
	t.Helper()
	if s.Scale == nil {
		t.Skip("the harness cannot change the pool's size")
	}
	must(t, s.Scale(t, s.capacity(t)+1))
}

func newInstances(t *testing.T, s suite) {
	if s.List == nil {
		t.Skip("the harness cannot list the pool's instances")
	}
	s.publishAndPromote(t)
	s.grow(t)

	known := func(id cloud.InstanceID) bool {
		return slices.ContainsFunc(s.Instances, func(old cloud.InstanceID) bool { return s.p.SameInstance(old, id) })
	}
	var born cloud.Instance
	s.until(t, "one running instance more", func() bool {
		list := slices.DeleteFunc(s.List(t), known)
		if len(list) != 1 {
			return false
		}
		born = got(s.p.Instance(t.Context(), list[0]))(t)
		return born.Power == cloud.PowerRunning
	})
	if s.p.BuiltFrom(s.Pool, born) != firstVersion || born.Pool != s.Pool && born.Pool != "" {
		t.Errorf("the new instance is %+v, want one built from %s", born, firstVersion)
	}
	for _, old := range s.instances(t) {
		if s.p.BuiltFrom(s.Pool, old) != "" {
			t.Errorf("%s is of an older image and claims to be built from %s", old.ID, old.BuiltFrom)
		}
	}
}

var upgradeCases = []testCase{
	{"a pool that would roll a new recipe out is refused, whenever that was set", setRecipeWouldRoll},
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

// wantRefusal requires a refusal with reason and text.
func wantRefusal(t *testing.T, err error) {
	t.Helper()
	wantError(t, err, cloud.Refused)
	var refused *cloud.Error
	if errors.As(err, &refused) && (refused.Code == "" || refused.Message == "") {
		t.Errorf("the refusal %q has no reason or no sentence", err)
	}
}
