// Package recipe carries out changes of pools' versions and recipes: promotion of an existing version, rollback,
// quarantine, release, retirement and restoration. Package history decides the changes. Each pass reads the cloud and
// does one step. No state is kept between passes, so that any process can continue after a crash.
//
// The package also saves the removed parts of recipes, and finds the parts for a restoration. Parts may contain
// secrets. Each is therefore in an immutable Secret in Kamino's namespace that outlives its Prototype.
package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/step"
)

// Change is the wanted state of a pool's versions and recipe.
type Change struct {
	Cloud Cloud
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
	Secrets   Secrets
	Prototype string
	// Shown is the restoration shown for the decision; nil for other changes. A recipe that has changed since stays.
	Shown *cloud.RecipeChange
	// Retires is true if Version is to be deleted.
	Retires bool
}

// OfRollback returns the change of a rollback.
func OfRollback(r history.Rollback, provider Cloud, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: r.Pool, Version: r.From, Tags: r.Tags, To: r.To, From: r.From}
}

// OfMark returns the change of a quarantine or a release.
func OfMark(m history.Mark, provider Cloud, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: m.Pool, Version: m.Version, Tags: m.Tags}
}

// OfRetirement returns the change of a retirement.
func OfRetirement(r history.Retirement, provider Cloud, pool cloud.PoolID) *Change {
	return &Change{Cloud: provider, Pool: pool, Name: r.Pool, Version: r.Version, Retires: true}
}

// OfPromotion returns the change of the promotion of an existing version.
func OfPromotion(p history.Promotion, provider Cloud, pool cloud.PoolID, secrets Secrets) *Change {
	return &Change{
		Cloud: provider, Pool: pool, Name: p.Pool, Version: p.Version, To: p.Version, FromImage: p.From, Bootstrap: p.RemovesBootstrap,
		Secrets: secrets, Prototype: p.Prototype,
	}
}

// OfRestoration returns the change of a restoration: see PlanRestoration.
func OfRestoration(shown cloud.RecipeChange, provider Cloud, name string) *Change {
	return &Change{Cloud: provider, Pool: shown.Pool, Name: name, Shown: &shown}
}

// MayWrite answers whether the recipe may be written now. It returns the planned change of the recipe: SetRecipe would
// refuse the change for the reasons in Refusals. MayWrite changes nothing.
func (c *Change) MayWrite(ctx context.Context) (cloud.RecipeChange, error) {
	if c.Shown == nil {
		return c.Cloud.RecipeChange(ctx, c.ref(c.To), c.Bootstrap)
	}
	if c.Shown.Restores == nil {
		return cloud.RecipeChange{}, errors.New("the change is not a restoration")
	}
	return c.Cloud.RestoreChange(ctx, c.Pool, *c.Shown.Restores)
}

// Result is the result of a pass.
type Result struct {
	// Did is the step of the pass; Done if nothing is left to do.
	Did Decision
	// Saved names the Secret with the lost parts of the recipe; empty if there are none.
	Saved string
	// After is the pause before the next pass.
	After time.Duration
	// Conflict is the error after a concurrent write to the pool; else nil.
	Conflict error
	// Launchable is why the cloud still launches instances from a quarantined version: the credential may not forbid it. Nil otherwise.
	Launchable error
}

// Done reports whether nothing is left to do.
func (r Result) Done() bool { return r.Did.Do == Done }

const (
	// pollInterval is the pause between two passes, because a cloud may show a write with a delay.
	pollInterval = time.Second
	// maxAttempts is the largest number of passes in a row with the same step.
	maxAttempts = 30
)

// ErrElsewhere is returned if another client changed the recipe since the decision.
var ErrElsewhere = errors.New("the recipe changed in the meantime")

// Pass reads the cloud and does one step. A conflict with a concurrent write is no error: the next pass tries again.
func (c *Change) Pass(ctx context.Context) (Result, error) {
	w, err := c.observe(ctx)
	if err != nil {
		return Result{After: pollInterval}, err
	}
	r := Result{Did: next(w.facts), Saved: w.secret, After: pollInterval}
	switch r.Did.Do {
	case Done:
		r.After = 0
	case Fail:
		err = c.stopped(w)
	case Tag:
		err = c.Cloud.TagImage(ctx, c.ref(c.Version), c.Tags)
	case Save:
		of := Owner{Prototype: c.Prototype, Pool: c.Name, PoolID: c.Pool, Version: c.To}
		err = c.Secrets.Save(ctx, w.secret, of, w.change.Backup, nil)
	case Point:
		if err = c.Cloud.SetRecipe(ctx, w.change); cloud.Is(err, cloud.Conflict) {
			r.Conflict, err = err, nil
		}
	case Forbid:
		// The quarantine is complete without it. A policy from before an upgrade must not stop a rollback.
		if err = c.Cloud.AllowLaunches(ctx, c.ref(c.Version), false); cloud.Is(err, cloud.Denied) {
			r.Did, r.After, r.Launchable, err = do(Done), 0, err, nil
		}
	case Allow:
		err = c.Cloud.AllowLaunches(ctx, c.ref(c.Version), true)
	case Delete:
		err = c.Cloud.DeleteImage(ctx, c.ref(c.Version))
	default: // the steps of a Warmer
	}
	return r, err
}

func (c *Change) ref(version string) cloud.ImageRef {
	return cloud.ImageRef{Pool: c.Pool, Version: version}
}

func (c *Change) stopped(w observed) error {
	if c.Shown != nil {
		return fmt.Errorf("%w, and nothing was restored: run the same command again", ErrElsewhere)
	}
	return fmt.Errorf("%w: the recipe now names %s; run `kamino history %s`", ErrElsewhere, w.image, c.Name)
}

// observed is the observed state.
type observed struct {
	facts facts
	image string
	// change is the recipe's change still to be written, and secret the Secret for the lost parts.
	change cloud.RecipeChange
	secret string
}

func (c *Change) observe(ctx context.Context) (observed, error) {
	w := observed{facts: facts{tags: len(c.Tags) > 0, points: c.To != "" || c.Shown != nil, deletes: c.Retires}}
	if w.facts.tags || w.facts.deletes {
		image, err := c.Cloud.Image(ctx, c.ref(c.Version))
		if err != nil {
			return w, err
		}
		w.facts.gone = image.State == cloud.Absent || image.State == cloud.Deleting
		w.facts.tagged, w.facts.deleted = tagged(image, c.Tags), w.facts.gone
		w.facts.launches, w.facts.wanted = image.Launches, launchesOf(c.Tags)
	}
	if !w.facts.points {
		return w, nil
	}
	err := c.lookRecipe(ctx, &w)
	return w, err
}

func (c *Change) lookRecipe(ctx context.Context, w *observed) (err error) {
	if c.Shown != nil {
		w.change, err = c.MayWrite(ctx)
		w.facts.recipe = asShown(*c.Shown, w.change)
		return err
	}
	pool, err := c.Cloud.Pool(ctx, c.Pool)
	if err != nil {
		return err
	}
	w.image, w.facts.recipe = pool.Recipe.Image, c.where(pool.Recipe)
	if w.facts.recipe != before {
		return nil
	}
	if w.change, err = c.MayWrite(ctx); err != nil || len(w.change.Removes) == 0 {
		return err
	}
	w.facts.loses = true
	w.secret, w.facts.saved, err = c.Secrets.Lookup(ctx, c.Prototype, w.change.Backup, nil)
	return err
}

// where returns the recipe's state relative to the decision.
func (c *Change) where(r cloud.Recipe) state {
	switch {
	case imageversion.Compare(r.Version, c.To) == 0 && !r.Latest:
		return wanted
	case c.From != "" && imageversion.Compare(r.Version, c.From) == 0, c.From == "" && strings.EqualFold(r.Image, c.FromImage):
		return before
	}
	return other
}

// asShown returns the state of a recipe to be restored. Another process may have restored the recipe.
func asShown(shown, now cloud.RecipeChange) state {
	switch {
	case now.Done:
		return wanted
	case strings.EqualFold(now.From, shown.From) && cloud.SameFields(now.Keeps, shown.Keeps) && cloud.SameFields(now.Adds, shown.Adds):
		return before
	}
	return other
}

// launchesOf returns whether a version may be launched after the tags are written; empty if they say nothing about it.
func launchesOf(tags map[string]string) cloud.Launches {
	switch reason, is := tags[cloud.TagQuarantined]; {
	case reason != "":
		return cloud.LaunchesForbidden
	case is:
		return cloud.LaunchesAllowed
	}
	return ""
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
	var last Result
	err := step.Run(step.Limits{Times: maxAttempts}, func() (step.Pass[Action, Reason], error) {
		r, err := c.Pass(ctx)
		r.Saved = cmp.Or(r.Saved, last.Saved)
		last = r
		return step.Pass[Action, Reason]{Decision: r.Did, Done: r.Done(), After: r.After}, err
	}, func(pause time.Duration) error { return wait(ctx, pause) })
	if unseen := (*step.NoChange)(nil); errors.As(err, &unseen) {
		return last, c.unseen(last, unseen.Times)
	}
	return last, err
}

// unseen is the error of a run whose step shows no change.
func (c *Change) unseen(last Result, times int) error {
	if last.Conflict != nil {
		return fmt.Errorf("the pool changed during each attempt; run the same command again: %w", last.Conflict)
	}
	return fmt.Errorf("the cloud accepted the change of pool %s %d times, but the change is not visible: "+
		"run `kamino history %s`, or run the same command again", c.Name, times, c.Name)
}
