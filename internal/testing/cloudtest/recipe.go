package cloudtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var recipeCases = []testCase{
	{"RecipeChange shows what is, what will be, and changes nothing", changeIsLook},
	{"RecipeChange shows a version that does not exist yet", changeOfFuture},
	{"SetRecipe pins the recipe to the version, and may be repeated", setRecipe},
	{"SetRecipe without removal keeps the bootstrap", setRecipeKeeps},
	{"SetRecipe with removal takes the bootstrap and keeps the rest", setRecipeRemoves},
	{"the bootstrap can be removed after the image was set", removeLater},
	{"a change is carried out after it was saved and read again", savedChange},
	{"a change made from another recipe is a conflict", setRecipeConflict},
	{"rolling back is the same write", rollBack},
	{"SetRecipe to an absent version is refused and changes nothing", setRecipeToNothing},
	{"running instances are not changed by SetRecipe", setRecipeSparesInstances},
}

func (s suite) change(t *testing.T, version string, removeBootstrap bool) cloud.RecipeChange {
	t.Helper()
	return got(s.p.RecipeChange(t.Context(), s.ref(version), removeBootstrap))(t)
}

// publishAndPromote publishes the first version, starts its donor, and promotes it.
func (s suite) publishAndPromote(t *testing.T) {
	t.Helper()
	s.publish(t, firstVersion)
	s.start(t, s.a)
	s.promote(t, firstVersion, true)
}

// promote changes the pool's recipe to a version.
func (s suite) promote(t *testing.T, version string, removeBootstrap bool) cloud.RecipeChange {
	t.Helper()
	change := s.change(t, version, removeBootstrap)
	must(t, s.p.SetRecipe(t.Context(), change))
	s.wantRecipe(t, change)
	return change
}

func (s suite) recipe(t *testing.T) cloud.Recipe {
	t.Helper()
	return got(s.p.Pool(t.Context(), s.Pool))(t).Recipe
}

// wantRecipe checks that the recipe matches the change.
func (s suite) wantRecipe(t *testing.T, change cloud.RecipeChange) {
	t.Helper()
	recipe := s.recipe(t)
	if recipe.Version != change.Version || recipe.Latest || !s.sameImage(recipe.Image, change.To) {
		t.Errorf("the recipe is %+v, want version %s, %s", recipe, change.Version, change.To)
	}
	for _, part := range change.Removes {
		if slices.Contains(recipe.Bootstrap, part.String()) {
			t.Errorf("the recipe still has %s", part)
		}
	}
}

func (s suite) sameImage(a, b string) bool {
	return a == b || s.FoldsCase && strings.EqualFold(a, b)
}

func checkChange(t *testing.T, s suite, change cloud.RecipeChange, version string) {
	t.Helper()
	if change.Pool != s.Pool || change.Version != version || change.From != s.recipe(t).Image || change.To == "" {
		t.Errorf("change %+v", change)
	}
	for _, part := range change.Removes {
		if cloud.HasField(change.Keeps, part) {
			t.Errorf("%s is both removed and kept", part)
		}
	}
	for _, part := range slices.Concat(change.Removes, change.Keeps) {
		if part.Kind == "" {
			t.Errorf("a part is of no kind: %+v", part)
		}
	}
	if !change.Done && !json.Valid(change.Backup) {
		t.Errorf("the backup %q is no JSON", change.Backup)
	}
}

func changeIsLook(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	before := s.recipe(t)
	for _, removeBootstrap := range []bool{false, true} {
		change := s.change(t, firstVersion, removeBootstrap)
		checkChange(t, s, change, firstVersion)
		if change.Done {
			t.Error("a change that was not carried out is done")
		}
		if !removeBootstrap && len(change.Removes) > 0 {
			t.Errorf("asked to remove nothing, it removes %v", change.Removes)
		}
		wantSame(t, "a second look shows something else", change, s.change(t, firstVersion, removeBootstrap))
	}
	wantSame(t, "looking changed the recipe", before, s.recipe(t))
}

func changeOfFuture(t *testing.T, s suite) {
	foretold := s.change(t, firstVersion, true)
	checkChange(t, s, foretold, firstVersion)
	if list := got(s.p.Images(t.Context(), s.Pool))(t); len(list) != 0 {
		t.Errorf("foretelling made %+v", list)
	}
	s.publish(t, firstVersion)
	wantSame(t, "foretold and real change differ", foretold, s.change(t, firstVersion, true))
}

func setRecipe(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	change := s.promote(t, firstVersion, false)
	must(t, s.p.SetRecipe(t.Context(), change))
	s.wantRecipe(t, change)
	after := s.change(t, firstVersion, false)
	if !after.Done || len(after.Removes) > 0 || !s.sameImage(after.From, after.To) {
		t.Errorf("once carried out, the change is %+v", after)
	}
	must(t, s.p.SetRecipe(t.Context(), after))
	s.wantRecipe(t, change)
}

func setRecipeKeeps(t *testing.T, s suite) {
	before := s.recipe(t)
	s.publish(t, firstVersion)
	s.promote(t, firstVersion, false)
	wantSame(t, "the bootstrap changed", before.Bootstrap, s.recipe(t).Bootstrap)
}

// withoutBootstrap skips a test if there is no bootstrap to remove.
func (s suite) withoutBootstrap(t *testing.T) {
	t.Helper()
	if len(s.change(t, firstVersion, true).Removes) == 0 {
		t.Skip("the harness's recipe has no bootstrap to remove")
	}
}

func setRecipeRemoves(t *testing.T, s suite) {
	s.withoutBootstrap(t)
	s.publish(t, firstVersion)
	kept := s.change(t, firstVersion, true).Keeps
	change := s.promote(t, firstVersion, true)
	after := s.change(t, firstVersion, true)
	if !after.Done || len(after.Removes) > 0 {
		t.Errorf("once carried out, the change is %+v", after)
	}
	wantSame(t, "what was to be kept changed", kept, after.Keeps)
	must(t, s.p.SetRecipe(t.Context(), change))
	s.wantRecipe(t, change)
}

func removeLater(t *testing.T, s suite) {
	s.withoutBootstrap(t)
	s.publish(t, firstVersion)
	s.promote(t, firstVersion, false)
	change := s.change(t, firstVersion, true)
	checkChange(t, s, change, firstVersion)
	if change.Done || len(change.Removes) == 0 || !s.sameImage(change.From, change.To) {
		t.Fatalf("only the bootstrap is left to remove, the change is %+v", change)
	}
	must(t, s.p.SetRecipe(t.Context(), change))
	s.wantRecipe(t, change)
	if after := s.change(t, firstVersion, true); !after.Done {
		t.Errorf("once carried out, the change is %+v", after)
	}
}

func savedChange(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	saved := got(json.Marshal(s.change(t, firstVersion, true)))(t)
	var change cloud.RecipeChange
	must(t, json.Unmarshal(saved, &change))
	if len(change.Backup) > 0 {
		t.Error("the backup, which may hold secrets, was saved with the change")
	}
	must(t, s.p.SetRecipe(t.Context(), change))
	s.wantRecipe(t, change)
}

func setRecipeConflict(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	stale := s.change(t, firstVersion, true)
	current := s.promote(t, secondVersion, false)
	wantError(t, s.p.SetRecipe(t.Context(), stale), cloud.Conflict)
	s.Advance(t)
	s.wantRecipe(t, current)
}

func rollBack(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	s.promote(t, firstVersion, true)
	s.promote(t, secondVersion, true)
	back := s.promote(t, firstVersion, true)
	if !s.sameImage(back.From, s.change(t, secondVersion, true).To) {
		t.Errorf("rolling back went from %s", back.From)
	}
}

func setRecipeToNothing(t *testing.T, s suite) {
	before := s.recipe(t)
	if err := s.p.SetRecipe(t.Context(), s.change(t, firstVersion, true)); err == nil {
		t.Error("the pool points at a version that does not exist")
	} else {
		checkError(t, err)
	}
	s.Advance(t)
	wantSame(t, "a refused change changed the recipe", before, s.recipe(t))
}

func setRecipeSparesInstances(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	s.start(t, s.a)
	before := s.instances(t)
	s.promote(t, firstVersion, true)
	for range 3 {
		s.Advance(t)
		wantSame(t, "setting the recipe changed an instance", before, s.instances(t))
	}
}
