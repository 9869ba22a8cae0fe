// Package rollback carries out what package history decides about a pool's versions: a rollback, a promotion, a quarantine
// and its end, a retirement. Each pass looks at the cloud, has package plan decide, and does one thing; nothing is kept in
// between, so that whoever starts it again after a crash goes on.
package rollback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/rollback/plan"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// Change is what a pool's versions and its recipe are to become.
type Change struct {
	Cloud cloud.Provider
	Pool  cloud.PoolID
	// Name of the pool, for sentences.
	Name string
	// Version that gets the Tags; an empty value removes one.
	Version string
	Tags    map[string]string
	// To is the version that the recipe is to name; empty if it stays as it is.
	To string
	// From is the version that it leaves, or FromImage the image, as the cloud writes it.
	From, FromImage string
	// Bootstrap: what bootstraps a node leaves the recipe, too. It is kept first by Secrets, under Prototype's name.
	Bootstrap bool
	Secrets   savedrecipe.Secrets
	Prototype string
	// Retires deletes Version.
	Retires bool
}

// Of is the change that a rollback is.
func Of(r history.Rollback, provider cloud.Provider, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: r.Pool, Version: r.From, Tags: r.Tags, To: r.To, From: r.From}
}

// OfMark is the change that a quarantine is, or its end.
func OfMark(m history.Mark, provider cloud.Provider, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: m.Pool, Version: m.Version, Tags: m.Tags}
}

// OfRetirement is the change that a retirement is.
func OfRetirement(r history.Retirement, provider cloud.Provider, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: r.Pool, Version: r.Version, Retires: true}
}

// OfPromotion is the change that the promotion of a version is which is there already.
func OfPromotion(p history.Promotion, provider cloud.Provider, pool cloud.PoolID, secrets savedrecipe.Secrets) *Change {
	return &Change{
		Cloud: provider, Pool: pool, Name: p.Pool, Version: p.Version, To: p.Version, FromImage: p.From, Bootstrap: p.RemovesBootstrap,
		Secrets: secrets, Prototype: p.Prototype,
	}
}

// Result of a pass.
type Result struct {
	// Did is the step that was taken; plan.Done if nothing is left.
	Did plan.Action
	// Saved names the Secret with what the recipe loses; empty as long as nothing is to be kept.
	Saved string
	// After is when the next pass is due.
	After time.Duration
	// Conflict with somebody who wrote the pool at the same moment; nil if there was none.
	Conflict error
}

// Done tells that nothing is left to do.
func (r Result) Done() bool { return r.Did == plan.Done }

// tempo is the pause between two passes: a cloud may show what was written a little later.
const tempo = time.Second

// ErrElsewhere is returned where somebody pointed the recipe at something else meanwhile.
var ErrElsewhere = errors.New("somebody pointed it elsewhere meanwhile")

// Pass looks and takes one step. What may pass by itself, a conflict with somebody who writes the pool at the same moment, is
// no error: the next pass tries again.
func (c *Change) Pass(ctx context.Context) (Result, error) {
	w, err := c.look(ctx)
	if err != nil {
		return Result{After: tempo}, err
	}
	r := Result{Did: plan.Next(w.facts), Saved: w.secret, After: tempo}
	switch r.Did {
	case plan.Done:
		r.After = 0
	case plan.Stop:
		return r, fmt.Errorf("%w: it names %s now, see `kamino history %s`", ErrElsewhere, w.recipe.Image, c.Name)
	case plan.Tag:
		err = c.Cloud.TagImage(ctx, c.ref(c.Version), c.Tags)
	case plan.Save:
		of := savedrecipe.Owner{Prototype: c.Prototype, Pool: c.Name, PoolID: c.Pool, Version: c.To}
		err = c.Secrets.Save(ctx, w.secret, of, w.change.Backup, nil)
	case plan.Point:
		if err = c.Cloud.SetRecipe(ctx, w.change); cloud.Is(err, cloud.Conflict) {
			r.Conflict, err = err, nil
		}
	case plan.Delete:
		err = c.Cloud.DeleteImage(ctx, c.ref(c.Version))
	}
	return r, err
}

func (c *Change) ref(version string) cloud.ImageRef {
	return cloud.ImageRef{Pool: c.Pool, Version: version}
}

// world is what was seen.
type world struct {
	facts  plan.Facts
	recipe cloud.Recipe
	// change of the recipe, if it is still to be written, and the secret that keeps what it takes away.
	change cloud.RecipeChange
	secret string
}

func (c *Change) look(ctx context.Context) (world, error) {
	w := world{facts: plan.Facts{Tags: len(c.Tags) > 0, Points: c.To != "", Deletes: c.Retires}}
	if w.facts.Tags || w.facts.Deletes {
		image, err := c.Cloud.Image(ctx, c.ref(c.Version))
		if err != nil {
			return w, err
		}
		w.facts.Gone = image.State == cloud.Absent || image.State == cloud.Deleting
		w.facts.Tagged, w.facts.Deleted = tagged(image, c.Tags), w.facts.Gone
	}
	if !w.facts.Points {
		return w, nil
	}
	pool, err := c.Cloud.Pool(ctx, c.Pool)
	if err != nil {
		return w, err
	}
	w.recipe = pool.Recipe
	w.facts.Recipe = c.where(w.recipe)
	if w.facts.Recipe != plan.Before {
		return w, nil
	}
	if w.change, err = c.Cloud.RecipeChange(ctx, c.ref(c.To), c.Bootstrap); err != nil || len(w.change.Removes) == 0 {
		return w, err
	}
	w.facts.Loses = true
	w.secret, w.facts.Saved, err = c.Secrets.Look(ctx, c.Prototype, w.change.Backup, nil)
	return w, err
}

// where is what the recipe names, seen from the decision.
func (c *Change) where(r cloud.Recipe) plan.Recipe {
	switch {
	case imageversion.Compare(r.Version, c.To) == 0 && !r.Latest:
		return plan.Wanted
	case c.From != "" && imageversion.Compare(r.Version, c.From) == 0, c.From == "" && strings.EqualFold(r.Image, c.FromImage):
		return plan.Before
	}
	return plan.Other
}

func tagged(image cloud.Image, tags map[string]string) bool {
	for name, text := range tags {
		if image.Tags[name] != text {
			return false
		}
	}
	return true
}

// Run makes passes until nothing is left to do, with the pauses between them made by wait. It gives up after as many
// passes in a row with the same step: the cloud takes the change and does not show it.
func (c *Change) Run(ctx context.Context, wait func(context.Context, time.Duration) error) (Result, error) {
	saved, last, again := "", plan.Done, 0
	for {
		r, err := c.Pass(ctx)
		if r.Saved == "" {
			r.Saved = saved
		}
		saved = r.Saved
		if err != nil || r.Done() {
			return r, err
		}
		if again++; r.Did != last {
			last, again = r.Did, 1
		}
		if again == patience && r.Conflict != nil {
			return r, r.Conflict
		}
		if again == patience {
			return r, fmt.Errorf("the cloud took the change of version %s %d times and does not show it: look again with `kamino history %s`, or run the same command again",
				c.Version, again, c.Name)
		}
		if err := wait(ctx, r.After); err != nil {
			return r, err
		}
	}
}

// patience is how many passes may take the same step one after the other.
const patience = 30
