package cloudtest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var restoreCases = []testCase{
	{"RestoreChange shows what comes back, and changes nothing", restoreIsLook},
	{"SetRecipe gives a recipe back what it lost, and may be repeated", restores},
	{"an unsaved part is missing until the user passes it", restoresPassedParts},
	{"a part of another pool, or an unsaved part, is invalid", restoresNothingForeign},
	{"a restoration made from another recipe is a conflict", restoreConflict},
	{"a pool that would roll a restored recipe out is refused", restoreWouldRoll},
	{"running instances are not changed by a restored recipe", restoreSparesInstances},
}

// lose promotes the first version, and returns the lost parts with given content that is valid for any part.
func (s suite) lose(t *testing.T) (saved cloud.Saved, removed []cloud.RecipeField) {
	t.Helper()
	s.publish(t, firstVersion)
	change := s.promote(t, firstVersion, true)
	saved = cloud.Saved{Backup: change.Backup, Given: map[string][]byte{}}
	for _, part := range cloud.Unreadable(change.Removes) {
		saved.Given[part.String()] = []byte(`{"commandToExecute": "true"}`)
	}
	return saved, change.Removes
}

func restoreIsLook(t *testing.T, s suite) {
	was := s.recipe(t)
	saved, removed := s.lose(t)
	before := s.recipe(t)
	change := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	own := was.Version != "" || was.Latest // returning to a version of the pool is a rollback
	if change.Pool != s.Pool || change.Version != "" || change.From != before.Image || change.Done != (own && len(removed) == 0) {
		t.Errorf("what would come back is %+v", change)
	}
	if want := map[bool]string{false: was.Image, true: before.Image}[own]; !s.sameImage(change.To, want) {
		t.Errorf("the recipe would name %s, want %s", change.To, want)
	}
	if !cloud.SameFields(change.Adds, removed) || len(change.Missing) > 0 || len(change.Removes) > 0 {
		t.Errorf("of %v come back %v, without %v", removed, change.Adds, change.Missing)
	}
	wantSame(t, "a second look shows something else", change, got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t))
	wantSame(t, "looking changed the recipe", before, s.recipe(t))
}

func restores(t *testing.T, s suite) {
	was := s.recipe(t)
	saved, _ := s.lose(t)
	promoted := s.recipe(t).Image
	kept := s.change(t, firstVersion, true).Keeps
	change := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	for range 2 {
		must(t, s.p.SetRecipe(t.Context(), change))
		recipe := s.recipe(t)
		if image := map[bool]string{false: was.Image, true: promoted}[was.Version != "" || was.Latest]; !s.sameImage(recipe.Image, image) {
			t.Errorf("the recipe names %s, want %s", recipe.Image, image)
		}
		wantSame(t, "the bootstrap (-before the promotion +after the restoration)", was.Bootstrap, recipe.Bootstrap)
	}
	after := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	if !after.Done || len(after.Adds) > 0 {
		t.Errorf("once carried out, the change is %+v", after)
	}
	must(t, s.p.SetRecipe(t.Context(), after))
	again := s.change(t, firstVersion, true)
	wantSame(t, "what had stayed changed", kept, again.Keeps)
	must(t, s.p.SetRecipe(t.Context(), again))
	s.wantRecipe(t, again)
}

func restoresPassedParts(t *testing.T, s suite) {
	saved, removed := s.lose(t)
	if len(saved.Given) == 0 {
		t.Skip("all that the harness's recipe loses is saved")
	}
	saved.Given = nil
	change := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	lost := cloud.Unreadable(removed)
	if !cloud.SameFields(change.Missing, lost) || len(change.Adds) != len(removed)-len(lost) {
		t.Errorf("without %v: missing are %v, and %v come back", lost, change.Missing, change.Adds)
	}
	must(t, s.p.SetRecipe(t.Context(), change))
	for _, part := range lost {
		if bootstrap := s.recipe(t).Bootstrap; slices.Contains(bootstrap, part.String()) {
			t.Errorf("%s was not passed, and the recipe has %v", part, bootstrap)
		}
	}
}

func restoresNothingForeign(t *testing.T, s suite) {
	saved, _ := s.lose(t)
	foreign := bytes.ReplaceAll(saved.Backup, []byte(s.Pool), []byte(s.Pool+"x"))
	if bytes.Equal(foreign, saved.Backup) {
		t.Fatalf("what was saved does not name its pool: %s", saved.Backup)
	}
	for what, backup := range map[string][]byte{"another pool's": foreign, "nothing": nil, "no JSON": []byte("?"), "empty": []byte("{}")} {
		change, err := s.p.RestoreChange(t.Context(), s.Pool, cloud.Saved{Backup: backup, Given: saved.Given})
		if err == nil {
			t.Errorf("%s: %+v", what, change)
			continue
		}
		wantError(t, err, cloud.Invalid)
	}
	stale := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	stale.Restores = &cloud.Saved{Backup: foreign}
	before := s.recipe(t)
	wantError(t, s.p.SetRecipe(t.Context(), stale), cloud.Invalid)
	wantSame(t, "a refused change changed the recipe", before, s.recipe(t))
}

func restoreConflict(t *testing.T, s suite) {
	saved, _ := s.lose(t)
	s.publish(t, secondVersion)
	stale := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	if stale.Done {
		t.Skip("the harness's recipe loses nothing")
	}
	current := s.promote(t, secondVersion, false)
	wantError(t, s.p.SetRecipe(t.Context(), stale), cloud.Conflict)
	s.Advance(t)
	s.wantRecipe(t, current)
}

func restoreWouldRoll(t *testing.T, s suite) {
	saved, _ := s.lose(t)
	change := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)
	if change.Done {
		t.Skip("the harness's recipe loses nothing")
	}
	repair := s.rolling(t)
	before, recipe := s.instances(t), s.recipe(t)
	wantRefusal(t, s.p.SetRecipe(t.Context(), change))
	if reported := got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t); len(reported.Refusals) == 0 {
		t.Errorf("a change that would be refused is %+v", reported)
	}
	s.Advance(t)
	wantSame(t, "a refused restoration changed an instance", before, s.instances(t))
	wantSame(t, "a refused change changed the recipe", recipe, s.recipe(t))
	repair()
	must(t, s.p.SetRecipe(t.Context(), change))
}

func restoreSparesInstances(t *testing.T, s suite) {
	saved, _ := s.lose(t)
	s.start(t, s.a)
	before := s.instances(t)
	must(t, s.p.SetRecipe(t.Context(), got(s.p.RestoreChange(t.Context(), s.Pool, saved))(t)))
	for range 3 {
		s.Advance(t)
		wantSame(t, "restoring the recipe changed an instance", before, s.instances(t))
	}
}
