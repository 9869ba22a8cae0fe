package savedrecipe

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// lost is a pool whose recipe lost its bootstrap, and the change that gives it back.
func lost(t *testing.T) (*memory.Cloud, cloud.PoolID, cloud.RecipeChange) {
	t.Helper()
	c := memory.New(memory.Config{})
	id := c.AddPool(memory.PoolSpec{Name: "pool1", Image: "generic", Bootstrap: []string{"customData", "extension cse"}})
	c.AddVersion(id, memory.VersionSpec{Version: "2026.03.01"})
	change, err := c.RecipeChange(t.Context(), cloud.ImageRef{Pool: id, Version: "2026.03.01"}, true)
	if err == nil {
		err = c.SetRecipe(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	back, err := c.RestoreChange(t.Context(), id, cloud.Saved{Backup: change.Backup})
	if err != nil {
		t.Fatal(err)
	}
	return c, id, back
}

func TestTry(t *testing.T) {
	conflict := func(times int) func(memory.Call) memory.Outcome {
		return func(call memory.Call) memory.Outcome {
			if call.Op == "SetRecipe" && times > 0 {
				times--
				return memory.FailBefore(cloud.Conflict)
			}
			return memory.Pass()
		}
	}
	for name, test := range map[string]struct {
		meanwhile func(c *memory.Cloud, id cloud.PoolID)
		conflicts int
		kind      cloud.Kind
		image     string
		tries     int
	}{
		"nobody is in the way":         {image: "generic", tries: 1},
		"somebody changes the size":    {conflicts: 2, image: "generic", tries: 3},
		"somebody points it elsewhere": {meanwhile: func(c *memory.Cloud, id cloud.PoolID) { c.ChangeRecipe(id, "theirs") }, kind: cloud.Conflict, image: "theirs", tries: 1},
		"somebody adds what runs before joining": {meanwhile: func(c *memory.Cloud, id cloud.PoolID) {
			c.ChangeRecipe(id, string(id)+"/versions/2026.03.01", "extension x")
		}, kind: cloud.Conflict, image: "memory:///pools/pool1/versions/2026.03.01", tries: 1},
		"somebody restored it":     {meanwhile: func(c *memory.Cloud, id cloud.PoolID) { c.ChangeRecipe(id, "generic", "customData", "extension cse") }, image: "generic", tries: 1},
		"a write of it would roll": {meanwhile: func(c *memory.Cloud, id cloud.PoolID) { c.SetUpgrades(id, true) }, kind: cloud.Refused, image: "memory:///pools/pool1/versions/2026.03.01", tries: 1},
		"no permission":            {meanwhile: func(c *memory.Cloud, _ cloud.PoolID) { c.Forbid("SetRecipe") }, kind: cloud.Denied, image: "memory:///pools/pool1/versions/2026.03.01", tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, id, change := lost(t)
			if test.meanwhile != nil {
				test.meanwhile(c, id)
			}
			faulty := memory.NewFaulty(c, conflict(test.conflicts))
			tries, next := 0, &change
			var err error
			for next != nil && tries < 10 {
				tries++
				next, err = Try(t.Context(), faulty, *next)
			}
			p, look := c.Pool(t.Context(), id)
			if cloud.KindOf(err) != test.kind || tries != test.tries || look != nil || p.Recipe.Image != test.image {
				t.Errorf("after %d tries: %v, the recipe is %+v, %v", tries, err, p.Recipe, look)
			}
		})
	}
}
