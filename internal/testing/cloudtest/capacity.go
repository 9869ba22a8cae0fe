package cloudtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var capacityCases = []testCase{
	{"SetCapacity grows the pool and leaves its instances alone", grows},
	{"SetCapacity from another size is a conflict", growsFromElsewhere},
	{"SetCapacity never shrinks the pool", shrinks},
	{"new instances are built from the version that the recipe names", newInstances},
}

func (s suite) capacity(t *testing.T) int64 {
	t.Helper()
	return got(s.p.Pool(t.Context(), s.Pool))(t).Capacity
}

func grows(t *testing.T, s suite) {
	before, size := s.instances(t), s.capacity(t)
	must(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1))
	s.until(t, "grown", func() bool { return s.capacity(t) == size+1 })
	wantSame(t, "growing changed an instance", before, s.instances(t))
}

func growsFromElsewhere(t *testing.T, s suite) {
	size := s.capacity(t)
	for _, from := range []int64{size - 1, size + 1} {
		wantError(t, s.p.SetCapacity(t.Context(), s.Pool, from, size+2), cloud.Conflict)
	}
	s.Advance(t)
	if have := s.capacity(t); have != size {
		t.Errorf("capacity %d after two refusals, want %d", have, size)
	}
	must(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1))
	// A repeated call after a lost answer is a conflict, and adds no second instance.
	wantError(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1), cloud.Conflict)
	s.until(t, "grown", func() bool { return s.capacity(t) == size+1 })
}

func shrinks(t *testing.T, s suite) {
	size := s.capacity(t)
	for _, to := range []int64{size - 1, 0} {
		wantError(t, s.p.SetCapacity(t.Context(), s.Pool, size, to), cloud.Invalid)
	}
	s.Advance(t)
	if have := s.capacity(t); have != size {
		t.Errorf("capacity %d, want %d", have, size)
	}
}

func newInstances(t *testing.T, s suite) {
	if s.List == nil {
		t.Skip("the harness cannot list the pool's instances")
	}
	s.publishAndPromote(t)
	size := s.capacity(t)
	must(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1))

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
