package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// RestoreChange implements cloud.PoolProvider.
func (c *PoolProvider) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opRestoreChange, id)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	return c.restoreChange(p, saved)
}

func (c *pools) restoreChange(p *pool, saved cloud.Saved) (cloud.RecipeChange, error) {
	var was backup
	if err := json.Unmarshal(saved.Backup, &was); err != nil || was.Image == "" {
		return cloud.RecipeChange{}, refused(cloud.Invalid, opRestoreChange, string(p.id), "InvalidBackup", "not a saved recipe of this cloud")
	}
	if !samePool(was.Pool, p.id) {
		return cloud.RecipeChange{}, refused(cloud.Invalid, opRestoreChange, string(p.id), "OtherPool",
			fmt.Sprintf("the saved recipe belongs to pool %s", was.Pool))
	}
	change := cloud.RecipeChange{Pool: p.id, From: p.recipe.image, To: was.Image, Refusals: p.rollRefusals(), Restores: &saved}
	if was.Image == string(p.id) || strings.HasPrefix(was.Image, versionID(c.familyOf(p.id), "")) {
		change.To = change.From
	}
	change.Keeps = p.parts(slices.Concat(p.spec.Extensions, p.recipe.bootstrap))
	for _, part := range was.Removes {
		given, isGiven := saved.Given[part.String()]
		switch {
		case slices.Contains(p.recipe.bootstrap, part.String()):
			continue
		case part.Unreadable && !isGiven:
			change.Missing = append(change.Missing, part)
			continue
		case isGiven:
			part.Note = cloud.Digest(given)
		}
		part.Unreadable = false // the given part is complete
		change.Adds = append(change.Adds, part)
	}
	change.Done = change.From == change.To && len(change.Adds) == 0
	return change, nil
}

// restore is SetRecipe for a change of RestoreChange.
func (c *pools) restore(ctx context.Context, change cloud.RecipeChange) error {
	p, err := c.admitPool(ctx, opSetRecipe, change.Pool)
	if err != nil {
		return err
	}
	now, err := c.restoreChange(p, *change.Restores)
	switch {
	case err != nil || now.Done:
		return err
	case now.From != change.From || !cloud.SameFields(now.Keeps, change.Keeps):
		return refused(cloud.Conflict, opSetRecipe, string(p.id), "PreconditionFailed", "another client changed the recipe in between: read the recipe again")
	}
	if err := p.mayWrite(opSetRecipe); err != nil {
		return err
	}
	p.recipe.image = now.To
	p.revision++
	for _, part := range now.Adds {
		p.recipe.bootstrap = append(p.recipe.bootstrap, part.String())
	}
	c.record(ByCaller, EffectSetRecipe, now.To)
	c.roll(p)
	return nil
}
