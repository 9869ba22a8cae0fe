// Package rollback carries out the decisions of package history: rollback, promotion, quarantine, release and
// retirement. Each pass reads the cloud, asks package plan, and does one step. No state is kept between passes, so that
// any process can continue after a crash.
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

// Change is the wanted state of a pool's versions and recipe.
type Change struct {
	Cloud cloud.Provider
	Pool  cloud.PoolID
	// Name is the pool's name for messages.
	Name string
	// Version gets the Tags. An empty value removes a tag.
	Version string
	Tags    map[string]string
	// To is the version for the recipe; empty if the recipe stays.
	To string
	// From is the recipe's version before the change, or FromImage the image as the cloud writes it.
	From, FromImage string
	// Bootstrap is true if the recipe also loses its bootstrap data. Secrets saves the data under Prototype's name
	// first.
	Bootstrap bool
	Secrets   savedrecipe.Secrets
	Prototype string
	// Retires is true if Version is to be deleted.
	Retires bool
}

// Of returns the change of a rollback.
func Of(r history.Rollback, provider cloud.Provider, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: r.Pool, Version: r.From, Tags: r.Tags, To: r.To, From: r.From}
}

// OfMark returns the change of a quarantine or a release.
func OfMark(m history.Mark, provider cloud.Provider, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: m.Pool, Version: m.Version, Tags: m.Tags}
}

// OfRetirement returns the change of a retirement.
func OfRetirement(r history.Retirement, provider cloud.Provider, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: r.Pool, Version: r.Version, Retires: true}
}

// OfPromotion returns the change of the promotion of an existing version.
func OfPromotion(p history.Promotion, provider cloud.Provider, pool cloud.PoolID, secrets savedrecipe.Secrets) *Change {
	return &Change{
		Cloud: provider, Pool: pool, Name: p.Pool, Version: p.Version, To: p.Version, FromImage: p.From, Bootstrap: p.RemovesBootstrap,
		Secrets: secrets, Prototype: p.Prototype,
	}
}

// Result is the result of a pass.
type Result struct {
	// Did is the step of the pass; plan.Done if nothing is left to do.
	Did plan.Action
	// Saved names the Secret with the lost parts of the recipe; empty if there are none.
	Saved string
	// After is the pause before the next pass.
	After time.Duration
	// Conflict is the error after a concurrent write to the pool; else nil.
	Conflict error
}

// Done reports whether nothing is left to do.
func (r Result) Done() bool { return r.Did == plan.Done }

// pollInterval is the pause between two passes, because a cloud may show a write with a delay.
const pollInterval = time.Second

// ErrElsewhere is returned if another client changed the recipe to a third version.
var ErrElsewhere = errors.New("the recipe changed in the meantime")

// Pass reads the cloud and does one step. A conflict with a concurrent write is no error: the next pass tries again.
func (c *Change) Pass(ctx context.Context) (Result, error) {
	w, err := c.look(ctx)
	if err != nil {
		return Result{After: pollInterval}, err
	}
	r := Result{Did: plan.Next(w.facts), Saved: w.secret, After: pollInterval}
	switch r.Did {
	case plan.Done:
		r.After = 0
	case plan.Stop:
		return r, fmt.Errorf("%w: the recipe now names %s; run `kamino history %s`", ErrElsewhere, w.recipe.Image, c.Name)
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

// observed is the observed state.
type observed struct {
	facts  plan.Facts
	recipe cloud.Recipe
	// change is the recipe's change still to be written, and secret the Secret for the lost parts.
	change cloud.RecipeChange
	secret string
}

func (c *Change) look(ctx context.Context) (observed, error) {
	w := observed{facts: plan.Facts{Tags: len(c.Tags) > 0, Points: c.To != "", Deletes: c.Retires}}
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

// where returns the recipe's state relative to the decision.
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

// Run makes passes until nothing is left to do. wait makes the pauses. Run returns an error after maxAttempts passes with
// the same step, because the cloud accepts the change but does not show it.
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
		if again == maxAttempts && r.Conflict != nil {
			return r, r.Conflict
		}
		if again == maxAttempts {
			return r, fmt.Errorf("the cloud accepted the change of version %s %d times, but the change is not visible: run `kamino history %s`, or run the same command again",
				c.Version, again, c.Name)
		}
		if err := wait(ctx, r.After); err != nil {
			return r, err
		}
	}
}

// maxAttempts is the largest number of passes in a row with the same step.
const maxAttempts = 30
