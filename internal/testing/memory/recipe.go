package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// recipe is the recipe of a pool. Its image is any text, the pool's ID for "latest", or a version's ID.
type recipe struct {
	image     string
	bootstrap []string
}

// recipeVersion returns the version for the next instance, if it is a version of the pool.
func (c *pools) recipeVersion(p *pool) string {
	version, latest := versionIn(c.familyOf(p.id), p.recipe.image)
	if latest {
		return c.latest(c.familyOf(p.id))
	}
	return version
}

func (c *pools) recipeView(p *pool) cloud.Recipe {
	return cloud.Recipe{
		Image: p.recipe.image, Version: c.recipeVersion(p), Latest: p.recipe.image == string(p.id),
		Bootstrap: slices.Clone(p.recipe.bootstrap),
	}
}

// target returns a pool, and the version for its recipe if there is one.
func (c *pools) target(ctx context.Context, op string, id cloud.PoolID, version string) (*pool, *image, error) {
	_, v, err := c.version(ctx, op, cloud.FamilyVersion{Family: c.familyOf(id), Version: version})
	if err != nil {
		return nil, nil, err
	}
	p, err := c.findPool(op, id)
	return p, v, err
}

// RecipeChange also plans for a version that does not exist yet, for a dry run.
func (c *PoolProvider) RecipeChange(ctx context.Context, to cloud.Target, removeBootstrap bool) (cloud.RecipeChange, error) {
	defer c.enter()()
	p, v, err := c.target(ctx, opRecipeChange, to.Pool, to.Version)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	if v != nil {
		to.Image = v.id
	}
	change := p.recipeChange(to, removeBootstrap)
	if !change.Done {
		change.Backup, err = p.backup(change.Removes)
	}
	return change, err
}

// recipeChange returns the change to a target, without a backup.
func (p *pool) recipeChange(to cloud.Target, removeBootstrap bool) cloud.RecipeChange {
	change := cloud.RecipeChange{Pool: p.id, Version: to.Version, From: p.recipe.image, To: to.Image, Refusals: p.rollRefusals()}
	change.Keeps = p.parts(p.spec.Extensions)
	if removeBootstrap {
		change.Removes = p.parts(p.recipe.bootstrap)
	} else {
		change.Keeps = append(change.Keeps, p.parts(p.recipe.bootstrap)...)
	}
	p.handedOver(&change)
	change.Done = p.recipe.image == to.Image && len(change.Removes) == 0
	return change
}

// parts parses the names of a pool's parts: a kind, and the rest as the name.
func (p *pool) parts(names []string) []cloud.RecipeField {
	var parts []cloud.RecipeField
	for _, text := range names {
		kind, name, _ := strings.Cut(text, " ")
		parts = append(parts, cloud.RecipeField{Kind: kind, Name: name, Unreadable: slices.Contains(p.spec.Unreadable, text)})
	}
	return parts
}

// backup is the content of RecipeChange.Backup. Parts have only names here.
type backup struct {
	Pool    cloud.PoolID        `json:"pool"`
	Image   string              `json:"image"`
	Removes []cloud.RecipeField `json:"removes,omitempty"`
}

// backup returns the changed part of the recipe, as far as this cloud returns it.
func (p *pool) backup(removes []cloud.RecipeField) ([]byte, error) {
	return json.Marshal(backup{Pool: p.id, Image: p.recipe.image, Removes: removes})
}

// SetRecipe takes effect at once.
func (c *PoolProvider) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	defer c.enter()()
	if change.Restores != nil {
		return c.restore(ctx, change)
	}
	p, v, err := c.target(ctx, opSetRecipe, change.Pool, change.Version)
	if err != nil {
		return err
	}
	resource := string(p.id)
	switch {
	case v == nil:
		return refused(cloud.NotFound, opSetRecipe, resource, "ImageNotFound", fmt.Sprintf("version %s does not exist", change.Version))
	case change.To != v.id:
		return refused(cloud.Invalid, opSetRecipe, resource, "InvalidParameter", fmt.Sprintf("%q is not version %s", change.To, change.Version))
	case p.carriedOut(change):
		return nil
	case v.forbidden:
		return refused(cloud.Conflict, opSetRecipe, resource, "ImageDisabled", fmt.Sprintf("version %s cannot be launched", change.Version))
	case v.state != cloud.Complete:
		return refused(cloud.Conflict, opSetRecipe, resource, "ImageNotReady", fmt.Sprintf("version %s is %s, not Complete", change.Version, v.state))
	}
	if p.changedSince(change) {
		return refused(cloud.Conflict, opSetRecipe, resource, "PreconditionFailed",
			"another client changed the recipe in between: read the recipe again")
	}
	return c.promote(p, v, change)
}

// promote writes a version into a recipe.
func (c *pools) promote(p *pool, v *image, change cloud.RecipeChange) error {
	if err := p.mayWrite(opSetRecipe); err != nil {
		return err
	}
	if refusal := p.handOver(change.To); refusal != nil {
		return refusal.Error(phrase(opSetRecipe), string(p.id))
	}
	p.recipe.image, p.recipe.bootstrap = v.id, without(p.recipe.bootstrap, change.Removes)
	p.revision++
	c.record(ByCaller, EffectSetRecipe, v.id)
	c.roll(p)
	c.promotion = append(c.promotion, Promotion{
		At: c.at, Pool: p.id, Version: v.version, State: v.state,
		Generalized: v.disk.clean(), Quarantined: v.tags[cloud.TagQuarantined] != "",
	})
	return nil
}

func without(names []string, removed []cloud.RecipeField) []string {
	var left []string
	for _, name := range names {
		if !hasNamed(removed, name) {
			left = append(left, name)
		}
	}
	return left
}

// hasNamed reports whether a name of the recipe is among the parts.
func hasNamed(parts []cloud.RecipeField, name string) bool {
	return slices.ContainsFunc(parts, func(part cloud.RecipeField) bool { return part.String() == name })
}

// carriedOut reports whether the recipe is already as wanted.
func (p *pool) carriedOut(change cloud.RecipeChange) bool {
	left := slices.ContainsFunc(p.recipe.bootstrap, func(name string) bool { return hasNamed(change.Removes, name) })
	return p.recipe.image == change.To && !left
}

// changedSince reports whether the recipe has changed since the change was made.
func (p *pool) changedSince(change cloud.RecipeChange) bool {
	if p.recipe.image != change.From {
		return true
	}
	for _, part := range change.Removes {
		if !slices.Contains(p.recipe.bootstrap, part.String()) {
			return true
		}
	}
	for _, name := range p.recipe.bootstrap {
		if !hasNamed(change.Removes, name) && !hasNamed(change.Keeps, name) {
			return true
		}
	}
	if change.Backup == nil {
		return false // the backup is in a Secret, not in the change
	}
	backup, err := p.backup(change.Removes)
	return err != nil || !bytes.Equal(backup, change.Backup)
}

// DeletePool deletes a pool as a stranger. Its instances continue to run without an owner. An unknown pool panics,
// because the test is wrong.
func (c *pools) DeletePool(id cloud.PoolID) {
	defer c.enter()()
	if _, err := c.findPool(opPool, id); err != nil {
		panic(err)
	}
	c.all = slices.DeleteFunc(c.all, func(p *pool) bool { return samePool(p.id, id) })
	c.record(ByStranger, EffectDeletePool, string(id))
}

// ChangeRecipe changes a recipe's image and bootstrap as a stranger. An unknown pool panics, because the test is wrong.
func (c *pools) ChangeRecipe(id cloud.PoolID, image string, bootstrap ...string) {
	defer c.enter()()
	p := c.mustPool(id)
	p.recipe = recipe{image: image, bootstrap: slices.Clone(bootstrap)}
	p.revision++
	c.record(ByStranger, EffectSetRecipe, image)
}
