package capture

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history/retention"
)

// lookRecipe reads the pool's recipe once the image is complete, and then the versions to retire.
func (m promotion) lookRecipe(ctx context.Context, w *pass) error {
	f := &w.facts
	if !isRecipeRelevant(f) {
		return nil
	}
	if there, err := m.lookPool(ctx, w); err != nil || !there {
		return err
	}
	if err := w.unreadableRecipe(); err != nil {
		return err
	}
	if f.Trial.Progress != plan.NoTrial {
		f.Promotion.Recipe = promotedInTrial(w)
		return nil
	}
	var err error
	if w.promotion.change, err = m.Cloud.RecipeChange(ctx, w.ref(), removesBootstrap(w.p)); err != nil {
		return err
	}
	f.Promotion.Recipe, f.Promotion.Manual = w.recipeState(), f.Promotion.Manual || w.promotion.change.HandOver != ""
	if f.Promotion.Recipe == plan.RecipeElsewhere {
		m.lookContents(ctx, w)
		f.Promotion.Saved, err = m.lookSaved(ctx, w)
	}
	if err != nil || f.Promotion.Recipe != plan.RecipeHere {
		return err
	}
	f.Promotion.MustScaleOut = mustScaleOut(w)
	return m.lookRetirement(ctx, w)
}

// isRecipeRelevant reports whether the recipe can matter: the image is complete, the snapshot is deleted, and no trial
// is ending.
func isRecipeRelevant(f *plan.Facts) bool {
	copied := f.Image.Snapshot != plan.Absent && f.Image.Snapshot != plan.Deleting && f.Image.Snapshot != plan.Foreign
	return f.Image.Version == plan.Complete && !copied && !f.Failed && !f.Deleting && f.Trial.Progress != plan.TrialEnding
}

// lookPool reads the pool. A deleted pool counts as a changed recipe.
func (m promotion) lookPool(ctx context.Context, w *pass) (there bool, err error) {
	w.promotion.recipe, err = m.Cloud.Pool(ctx, w.pool)
	if cloud.Is(err, cloud.NotFound) {
		if err := confirmPoolGone(ctx, m.Engine, w); err != nil {
			return false, err
		}
		w.facts.Promotion.Recipe, w.promotion.isPoolDeleted = plan.RecipeChanged, true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, endConfirm(ctx, m.Engine, w, poolObject)
}

// unreadableRecipe is the error for a recipe that no longer names an image, for example after the deletion of its
// launch template. The loss is no decision for another image, so the capture waits.
func (w *pass) unreadableRecipe() error {
	if w.promotion.recipe.Recipe.Image != "" || w.record.Recipe == "" {
		return nil
	}
	why := []string{"the recipe no longer names an image"}
	for _, r := range w.promotion.recipe.Refusals {
		why = append(why, r.Message)
	}
	return &cloud.Error{Kind: cloud.NotFound, Op: "read the recipe of", Resource: w.promotion.recipe.Name, Message: strings.Join(why, "; ")}
}

// promotedInTrial reports whether a person promoted the version during the trial.
func promotedInTrial(w *pass) plan.Recipe {
	if w.promotion.recipe.Recipe.Version == w.p.Spec.Version {
		return plan.RecipeHere
	}
	return plan.RecipeElsewhere
}

// recipeState compares the recipe with this Prototype's version.
func (w *pass) recipeState() plan.Recipe {
	now := w.promotion.recipe.Recipe.Version
	switch {
	case w.promotion.change.Done:
		return plan.RecipeHere
	case now != "" && imageversion.Compare(now, w.p.Spec.Version) > 0:
		return plan.RecipeNewer
	case w.isRecipeChanged():
		return plan.RecipeChanged
	default:
		return plan.RecipeElsewhere
	}
}

// isRecipeChanged reports whether another client changed the recipe's image since the begin of the capture. Kamino does
// not overwrite such a change.
func (w *pass) isRecipeChanged() bool {
	before, now := w.record.Recipe, w.promotion.recipe.Recipe
	return before != "" && !strings.EqualFold(now.Image, before) && imageversion.Compare(now.Version, w.p.Spec.Version) != 0
}

func (m promotion) lookRetirement(ctx context.Context, w *pass) error {
	images, err := m.Cloud.Images(ctx, w.pool)
	if err != nil {
		return err
	}
	for _, version := range w.record.Retired { // the answer of a deletion can be lost
		remains := func(i cloud.Image) bool { return i.Version == version && i.State != cloud.Deleting }
		if !slices.ContainsFunc(images, remains) {
			reportRetired(w.p, version)
		}
	}
	keep := int(w.p.Spec.Settings.Defaulted().Keep)
	if w.promotion.retire, err = m.retirable(ctx, w.pool, images, w.p.Spec.Version, keep); err != nil {
		return err
	}
	w.facts.Promotion.MustRetire = len(w.promotion.retire) > 0
	return nil
}

// retirable lists the versions to retire. Versions of existing instances stay. The instances are read only if a version
// would be retired.
func (m promotion) retirable(ctx context.Context, pool cloud.PoolID, images []cloud.Image, current string, keep int) ([]string, error) {
	isPrototype, err := m.proves(ctx, images)
	if err != nil {
		return nil, err
	}
	retire := retention.Retired(retention.Decide(images, current, keep, nil, isPrototype))
	if len(retire) == 0 {
		return retire, nil
	}
	instances, err := m.Cloud.Instances(ctx, pool)
	if cloud.Is(err, cloud.Unsupported) {
		return retire, nil
	}
	if err != nil {
		return nil, err
	}
	return retention.Retired(retention.Decide(images, current, keep, retention.CountInUse(instances), isPrototype)), nil
}

// proves returns the proof for versions without a cluster's tag: their Prototype is here. The Prototypes are listed only for
// such versions of a capture.
func (m promotion) proves(ctx context.Context, images []cloud.Image) (func(uid string) bool, error) {
	known := map[string]bool{}
	if slices.ContainsFunc(images, func(i cloud.Image) bool { return i.Origin == cloud.Unmarked && i.Tags[cloud.TagUID] != "" }) {
		list := &v1alpha1.PrototypeList{}
		if err := m.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list prototypes: %w", err)
		}
		for _, p := range list.Items {
			known[string(p.UID)] = true
		}
	}
	return func(uid string) bool { return known[uid] }, nil
}

// removesBootstrap reports whether the image replaces the bootstrap data of the recipe.
func removesBootstrap(p *v1alpha1.Prototype) bool {
	return p.Spec.Settings.Profile().Traits().RemovesBootstrap
}

// retire deletes the versions beyond the retention limit. The versions are recorded before the first deletion.
func (m promotion) retire(ctx context.Context, w *pass) error {
	isRecorded := func(version string) bool { return slices.Contains(w.record.Retired, version) }
	if added := slices.DeleteFunc(slices.Clone(w.promotion.retire), isRecorded); len(added) > 0 {
		if err := m.record(ctx, w, func(r *v1alpha1.Record) { r.Retired = slices.Concat(r.Retired, added) }); err != nil {
			return err
		}
	}
	for _, version := range w.promotion.retire {
		if err := m.Cloud.DeleteImage(ctx, cloud.ImageRef{Pool: w.pool, Version: version}); err != nil {
			return err
		}
		reportRetired(w.p, version)
	}
	return nil
}

// reportRetired reports a deleted version once.
func reportRetired(p *v1alpha1.Prototype, version string) {
	if !slices.Contains(p.Status.Retired, version) {
		p.Status.Retired = append(p.Status.Retired, version)
	}
}

// promote sets the recipe.
func (m promotion) promote(ctx context.Context, w *pass) error {
	if err := (trials(m)).copyVerdict(ctx, w); err != nil {
		return err
	}
	return m.Cloud.SetRecipe(ctx, w.promotion.change)
}

// mustScaleOut reports whether the pool has yet to grow. The tag of the version outlives a record that a restore of etcd replaced.
func mustScaleOut(w *pass) bool {
	done := w.record.ScaleOut != nil && w.record.ScaleOut.Done || w.image.version.Tags[cloud.TagGrownTo] != ""
	return w.p.Spec.Settings.Recipe.NewNodes > 0 && !done
}

// scaleOut grows the pool once. The target size is recorded before the growth. The completion is tagged and recorded afterwards.
func (m promotion) scaleOut(ctx context.Context, w *pass) error {
	if w.record.ScaleOut == nil {
		target := w.promotion.recipe.Capacity + int64(w.p.Spec.Settings.Recipe.NewNodes)
		if err := m.record(ctx, w, func(r *v1alpha1.Record) { r.ScaleOut = &v1alpha1.ScaleOut{Target: target} }); err != nil {
			return err
		}
	}
	target := w.record.ScaleOut.Target
	if w.promotion.recipe.Capacity < target {
		if err := m.Cloud.SetCapacity(ctx, w.pool, w.promotion.recipe.Capacity, target); err != nil {
			return err
		}
	}
	if err := m.Cloud.TagImage(ctx, w.ref(), map[string]string{cloud.TagGrownTo: strconv.FormatInt(target, 10)}); err != nil {
		return err
	}
	return m.record(ctx, w, func(r *v1alpha1.Record) { r.ScaleOut = &v1alpha1.ScaleOut{Target: target, Done: true} })
}
