package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/history/retention"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// promotionCloud has the calls of a cloud.Provider that change a recipe and retire versions.
type promotionCloud interface {
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error)
	SetRecipe(ctx context.Context, change cloud.RecipeChange) error
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
	Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error)
	Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error)
	TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error
	DeleteImage(ctx context.Context, ref cloud.ImageRef) error
}

// promotion lets the recipe name the version: save the removed parts, write the recipe, retire versions.
type promotion struct {
	kube       kubernetes.Interface
	client     client.Client
	cloud      promotionCloud
	namespace  string
	customData customDataReader
	trials     trials
	store      store
	witness    witness
	waves      bool
	log        logr.Logger
}

// lookRecipe reads the pool's recipe once the image is complete, and then the versions to retire.
func (m promotion) lookRecipe(ctx context.Context, w *pass) error {
	f := &w.facts
	if !isRecipeRelevant(f) {
		return nil
	}
	if there, err := m.lookPool(ctx, w); err != nil || !there {
		return err
	}
	if err := unreadableRecipe(w); err != nil {
		return err
	}
	if f.Trial.Progress != plan.NoTrial {
		f.Promotion.Recipe = promotedInTrial(w)
		return nil
	}
	var err error
	if w.promotion.change, err = m.cloud.RecipeChange(ctx, w.ref(), removesBootstrap(w.p)); err != nil {
		return err
	}
	f.Promotion.Recipe, f.Promotion.Manual = recipeState(w), f.Promotion.Manual || w.promotion.change.HandOver != ""
	if f.Promotion.Recipe == plan.RecipeElsewhere {
		if err := m.lookLineage(ctx, w); err != nil {
			return err
		}
		if !f.Promotion.Manual {
			if w.promotion.heldBack, err = m.lookWave(ctx, w); err != nil {
				return err
			}
			f.Promotion.Manual = w.promotion.heldBack != ""
		}
		m.lookContents(ctx, w)
		f.Promotion.Saved, err = m.lookSaved(ctx, w)
	}
	if err != nil || f.Promotion.Recipe != plan.RecipeHere {
		return err
	}
	return m.lookRetirement(ctx, w)
}

// lookLineage lets a person decide about a version that descends from a quarantined version. Only a version of a donor that another
// version built has ancestors.
func (m promotion) lookLineage(ctx context.Context, w *pass) error {
	if w.image.version.Tags[cloud.TagLineage] == "" {
		return nil
	}
	images, err := m.cloud.Images(ctx, w.pool)
	w.promotion.frozenBy = retention.Descended(images)[w.p.Spec.Version]
	w.facts.Promotion.Manual = w.facts.Promotion.Manual || w.promotion.frozenBy != ""
	return err
}

// isRecipeRelevant reports whether the recipe can matter: the image is complete, the snapshot is deleted, and no trial
// is ending.
func isRecipeRelevant(f *plan.Facts) bool {
	copied := f.Image.Snapshot != plan.Absent && f.Image.Snapshot != plan.Deleting && f.Image.Snapshot != plan.Foreign
	return f.Image.Version == plan.Complete && !copied && !f.Failed && !f.Deleting && f.Trial.Progress != plan.TrialEnding
}

// lookPool reads the pool. A deleted pool counts as a changed recipe.
func (m promotion) lookPool(ctx context.Context, w *pass) (there bool, err error) {
	w.promotion.recipe, err = m.cloud.Pool(ctx, w.pool)
	if cloud.Is(err, cloud.NotFound) {
		if err := m.witness.confirmPoolGone(ctx, w); err != nil {
			return false, err
		}
		w.facts.Promotion.Recipe, w.promotion.isPoolDeleted = plan.RecipeChanged, true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, m.witness.endConfirm(ctx, w, poolObject)
}

// unreadableRecipe is the error for a recipe that no longer names an image, for example after the deletion of its
// launch template. The loss is no decision for another image, so the capture waits.
func unreadableRecipe(w *pass) error {
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
func recipeState(w *pass) plan.Recipe {
	now := w.promotion.recipe.Recipe.Version
	switch {
	case w.promotion.change.Done:
		return plan.RecipeHere
	case now != "" && imageversion.Compare(now, w.p.Spec.Version) > 0:
		return plan.RecipeNewer
	case isRecipeChanged(w):
		return plan.RecipeChanged
	default:
		return plan.RecipeElsewhere
	}
}

// isRecipeChanged reports whether another client changed the recipe's image since the begin of the capture. Kamino does
// not overwrite such a change.
func isRecipeChanged(w *pass) bool {
	before, now := w.record.Recipe, w.promotion.recipe.Recipe
	return before != "" && !strings.EqualFold(now.Image, before) && imageversion.Compare(now.Version, w.p.Spec.Version) != 0
}

func (m promotion) lookRetirement(ctx context.Context, w *pass) error {
	images, err := m.cloud.Images(ctx, w.pool)
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
	instances, err := m.cloud.Instances(ctx, pool)
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
		if err := m.client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list prototypes: %w", err)
		}
		for _, p := range list.Items {
			known[string(p.UID)] = true
		}
	}
	return func(uid string) bool { return known[uid] }, nil
}

// retire deletes the versions beyond the retention limit. The versions are recorded before the first deletion.
func (m promotion) retire(ctx context.Context, w *pass) error {
	isRecorded := func(version string) bool { return slices.Contains(w.record.Retired, version) }
	if added := slices.DeleteFunc(slices.Clone(w.promotion.retire), isRecorded); len(added) > 0 {
		if err := m.store.record(ctx, w, func(r *v1alpha1.Record) { r.Retired = slices.Concat(r.Retired, added) }); err != nil {
			return err
		}
	}
	for _, version := range w.promotion.retire {
		if err := m.cloud.DeleteImage(ctx, cloud.ImageRef{Pool: w.pool, Version: version}); err != nil {
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
	if err := m.trials.copyVerdict(ctx, w); err != nil {
		return err
	}
	return m.cloud.SetRecipe(ctx, w.promotion.change)
}

// lookContents compares the contents of the version with the version in the recipe, once before the promotion. The result
// is for people: if the comparison fails, the capture continues without a result.
func (m promotion) lookContents(ctx context.Context, w *pass) {
	now := w.promotion.recipe.Recipe.Version
	if r := w.p.Status.Recipe; r != nil && r.From == w.promotion.change.From {
		w.promotion.contentsChange = r.Contents
		return
	}
	if now == "" || w.disk.proof == nil || w.disk.proof.ContentsDigest == "" {
		return
	}
	image, err := m.cloud.Image(ctx, cloud.ImageRef{Pool: w.pool, Version: now})
	if err != nil || image.Tags[cloud.TagContents] == "" {
		return
	}
	before := &v1alpha1.Prototype{}
	if err := m.client.Get(ctx, client.ObjectKey{Name: image.Tags[cloud.TagPrototype]}, before); err != nil {
		m.log.V(1).Info("the contents of the version in the recipe are unknown", "prototype", w.p.Name, "version", now, "error", err.Error())
		return
	}
	w.promotion.contentsChange = contents.Compare(w.p.Spec.Pool, contents.OfImage(image).Read(before), contents.OfImage(w.image.version).Read(w.p)).Line()
}

// lookSaved reports whether the current removed parts of the recipe are saved. The first promotion of a pool also loses
// the image: no version of the pool leads back.
func (m promotion) lookSaved(ctx context.Context, w *pass) (saved bool, err error) {
	own := w.promotion.recipe.Recipe.Version != "" || w.promotion.recipe.Recipe.Latest
	if len(w.promotion.change.Removes) == 0 && own {
		return true, nil
	}
	if len(w.promotion.change.Removes) > 0 {
		if w.promotion.customData, err = m.customData.read(ctx, w.p); err != nil {
			return false, err
		}
	}
	if w.promotion.savedRecipeName, saved, err = m.savedRecipes().Lookup(ctx, w.p.Name, w.promotion.change.Backup, w.promotion.customData); saved &&
		err == nil {
		w.p.Status.SavedRecipe = m.namespace + "/" + w.promotion.savedRecipeName
	}
	return saved, err
}

// saveRecipe saves the parts of the recipe that the promotion removes.
func (m promotion) saveRecipe(ctx context.Context, w *pass) error {
	of := recipe.Owner{Prototype: w.p.Name, UID: w.p.UID, Pool: w.p.Spec.Pool, PoolID: w.pool, Version: w.p.Spec.Version}
	if err := m.savedRecipes().Save(ctx, w.promotion.savedRecipeName, of, w.promotion.change.Backup, w.promotion.customData); err != nil {
		return err
	}
	w.p.Status.SavedRecipe = m.namespace + "/" + w.promotion.savedRecipeName
	return nil
}

func (m promotion) savedRecipes() recipe.Secrets {
	return recipe.Secrets{Kube: m.kube, Namespace: m.namespace}
}
