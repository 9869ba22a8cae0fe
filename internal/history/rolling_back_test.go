package history

import (
	"maps"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestAutoRollbackMessage depends on the recipe: while the recipe names the version, no sentence says that the pool
// rolled back.
func TestAutoRollbackMessage(t *testing.T) {
	begun := map[string]string{cloud.TagSuspect: "two nodes", cloud.TagRolledBackAt: clock(0), cloud.TagRolledBackTo: v1}
	with := func(tag, text string) map[string]string {
		all := maps.Clone(begun)
		if all[tag] = text; text == "" {
			delete(all, tag)
		}
		return all
	}
	cleared := with(cloud.TagSuspect, "")
	delete(cleared, cloud.TagRolledBackTo)
	for name, test := range map[string]struct {
		tags    map[string]string
		arrived bool
		recipe  string
		says    string
	}{
		"begun": {begun, false, v2,
			"is rolling back from version " + v2 + " to " + v1 + " since " + clock(0) + ", and the recipe still names " + v2},
		"begun, and written in another way": {begun, false, "2026.3.2", "is rolling back from version"},
		"begun, and quarantined":            {with(cloud.TagQuarantined, "bad"), false, v2, "is rolling back from version"},
		"pointed, and not noted":            {begun, false, v1, "rolled back automatically from version " + v2},
		"pointed elsewhere in between":      {begun, false, v3, "was rolling back from version " + v2 + " when a user pointed the recipe at"},
		"rolled back":                       {begun, true, v1, "the next node of the pool will show"},
		"rolled back, and promoted another": {begun, true, v3, "the next node of the pool will show"},
		"rolled back, and a user pointed":   {begun, true, v2, "and the recipe names " + v2 + " again"},
		"rolled back, and was bad":          {with(cloud.TagQuarantined, "bad"), true, v1, "the version is quarantined"},
		"not the cause":                     {cleared, true, v1, "the image was not the cause"},
		"cleared by a person in between":    {cleared, false, v2, "started a rollback from version " + v2 + ", but the version is no longer suspect"},
		"marked by a user":                  {map[string]string{cloud.TagSuspect: "why"}, false, v1, "is marked as suspect (why)"},
		"marked by a user, and in use": {map[string]string{cloud.TagSuspect: "why"}, false, v2,
			"the recipe names the version: to roll back, run `kamino rollback pool1`"},
		"begun at an unreadable time":         {with(cloud.TagRolledBackAt, "yesterday"), false, v2, "is marked as suspect"},
		"begun without a version to go to":    {with(cloud.TagRolledBackTo, ""), false, v2, "is marked as suspect"},
		"no version to go to, pointed at one": {with(cloud.TagRolledBackTo, ""), false, v1, "is marked as suspect"},
	} {
		t.Run(name, func(t *testing.T) {
			older := ours(v1)
			if test.arrived {
				older.Tags[cloud.TagPromotedAt] = clock(0)
			}
			p := &pool{images: []cloud.Image{older, withTags(v2, test.tags), ours(v3)}, current: test.recipe}
			recipe := p.history().Recipe
			went := Unacknowledged(p.images)
			if went == nil {
				t.Fatal("nothing is said")
			}
			refusal := went.Refusal("pool1", recipe)
			if !strings.Contains(refusal.Message, test.says) {
				t.Errorf("it says %q, want %q", refusal.Message, test.says)
			}
			rolls := strings.Contains(refusal.Message, "is rolling back")
			if (refusal.Reason == RollingBackReason) != rolls || (RollingBack(cloud.Pool{Recipe: recipe}, p.images) != nil) != rolls ||
				p.history().AutoRollbacks[0].RollingBack != rolls {
				t.Errorf("%s, %+v: %q", refusal.Reason, p.history().AutoRollbacks[0], refusal.Message)
			}
			if same(test.recipe, v2) && !test.arrived && strings.Contains(refusal.Message, "rolled back automatically") {
				t.Errorf("the recipe names %s, and it says %q", test.recipe, refusal.Message)
			}
			if rolls != (len(p.history().RefuseRebuild()) > 0 && p.history().RefuseRebuild()[0].Reason == RollingBackReason) {
				t.Errorf("a rebuild is refused with %v", p.history().RefuseRebuild())
			}
		})
	}
}

// TestManualRollbackKeepsTarget, with the start time.
func TestManualRollbackKeepsTarget(t *testing.T) {
	p := &pool{images: []cloud.Image{ours(v1), ours(v2),
		withTags(v3, map[string]string{cloud.TagSuspect: "two nodes", cloud.TagRolledBackAt: clock(0), cloud.TagRolledBackTo: v1})}, current: v3}
	r, refusals := p.history().Rollback("", "by hand")
	if refusals != nil || r.To != v1 || !r.Finishes.Equal(midday) {
		t.Errorf("%+v, %v", r, refusals)
	}
	if r, refusals = p.history().Rollback(v2, "by hand"); refusals != nil || r.To != v2 || !r.Finishes.IsZero() {
		t.Errorf("to another one: %+v, %v", r, refusals)
	}
	if _, refusals := p.history().Promote(v3); len(refusals) != 1 || refusals[0].Reason != RolledBack {
		t.Errorf("the version that it leaves is promoted: %v", refusals)
	}
}
