package karpenter

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

const opRecipe = "set the recipe of"

// selection is the recipe in the class. AMIFamily is nil if the class has none, because an alias implies it.
type selection struct {
	Terms     []any `json:"amiSelectorTerms"`
	AMIFamily any   `json:"amiFamily"`
}

// selectionOf returns the recipe of a class as it is written.
func selectionOf(o *unstructured.Unstructured) selection {
	terms, _, _ := unstructured.NestedSlice(o.Object, "spec", "amiSelectorTerms")
	family, found, _ := unstructured.NestedString(o.Object, "spec", "amiFamily")
	if !found {
		return selection{Terms: terms}
	}
	return selection{Terms: terms, AMIFamily: family}
}

// backup is the recipe before a promotion.
type backup struct {
	Pool  cloud.PoolID `json:"pool"`
	Image string       `json:"image"`
	selection
}

// annotationUnverified on a class has the recipe before and after a write whose guards Kamino has not read again. It is written with the
// recipe, so that another process can take the write back.
const annotationUnverified = "kamino.dev/unverified-recipe"

// unverified is the content of the annotation.
type unverified struct {
	Former  selection `json:"former"`
	Written selection `json:"written"`
}

// unverified returns the unverified write; false without one.
func (v view) unverified() (u unverified, is bool) {
	text, found := v.raw.GetAnnotations()[annotationUnverified]
	return u, found && utiljson.Unmarshal([]byte(text), &u) == nil
}

// RecipeChange implements cloud.PoolProvider. User data always stays: Karpenter makes it for each launch.
func (r *PoolProvider) RecipeChange(ctx context.Context, to cloud.Target, _ bool) (cloud.RecipeChange, error) {
	v, err := r.view(ctx, to.Pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	_, pending := v.unverified()
	change := cloud.RecipeChange{Pool: v.pool(), Version: to.Version, From: v.image, To: to.Image, Keeps: []cloud.RecipeField{userData},
		Done: v.image == to.Image && !pending, Refusals: v.refusals()}
	if v.owner() != "" {
		native, err := r.images.NativeImage(ctx, v.region, to.Image)
		if err != nil && !cloud.Is(err, cloud.NotFound) && !cloud.Is(err, cloud.Conflict) {
			return cloud.RecipeChange{}, err
		}
		if native == "" {
			native = "AMI" // the image may be missing
		}
		refusal := v.refuseOwned(native)
		change.HandOver, change.Refusals = refusal.Message, append(change.Refusals, refusal)
	}
	change.Backup, err = json.MarshalIndent(backup{v.pool(), v.image, selectionOf(v.raw)}, "", "  ")
	return change, apiserver.Fail("save the recipe of", v.String(), err)
}

// refuseOwned is the refusal of a write if a parameter names the image.
func (v view) refuseOwned(native string) cloud.Refusal {
	name := v.class.parameter()
	return cloud.Refuse(reasonParameter, fmt.Sprintf("%s reads its image from parameter %s", v, name),
		fmt.Sprintf("run `aws ssm put-parameter --overwrite --name %s --value %s`; Karpenter notices the change within five minutes", name, native))
}

// RestoreChange implements cloud.PoolProvider and restores the terms and the family exactly as they were.
func (r *PoolProvider) RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	v, err := r.view(ctx, pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	was, err := readBackup(v, saved.Backup)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	isVersion, err := r.isVersion(ctx, v, was.Image)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	to := cloud.Target{Pool: pool, Image: was.Image}
	if isVersion { // only a rollback returns to a version of the pool
		to.Image = v.image
	}
	change, err := r.RecipeChange(ctx, to, false)
	if !isVersion {
		change.Done = reflect.DeepEqual(selectionOf(v.raw), was.selection)
	}
	change.Backup, change.Restores = nil, &saved
	return change, err
}

// isVersion reports whether an image is a version of the pool.
func (r *PoolProvider) isVersion(ctx context.Context, v view, image string) (bool, error) {
	family, err := r.familyIn(ctx, v.region, v.name())
	version, _ := r.images.VersionOf(family, image)
	return version != "", err
}

// readBackup parses a backup, and refuses the backup of another pool.
func readBackup(v view, data []byte) (was backup, err error) {
	var message string
	switch err := utiljson.Unmarshal(data, &was); {
	case err != nil || was.Image == "" || len(was.Terms) == 0:
		message = "the backup is not a recipe of an EC2NodeClass"
	case was.Pool != v.pool():
		message = "the backup is a recipe of " + string(was.Pool)
	default:
		return was, nil
	}
	return was, &cloud.Error{Kind: cloud.Invalid, Op: "restore the recipe of", Resource: v.String(), Message: message}
}

// SetRecipe implements cloud.PoolProvider: the guards are read before and after the write, and the write is taken back if one is gone.
func (r *PoolProvider) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	return apiserver.RetryOnConflict(func() error { return r.setRecipe(cloud.WithoutReadCache(ctx), change) })
}

func (r *PoolProvider) setRecipe(ctx context.Context, change cloud.RecipeChange) error {
	v, err := r.view(ctx, change.Pool)
	if err != nil {
		return err
	}
	if u, pending := v.unverified(); pending { // of a process that ended between its write and its second look
		if err := r.verify(ctx, v.name(), v.raw, u); err != nil {
			return err
		}
		if v, err = r.view(ctx, change.Pool); err != nil {
			return err
		}
	}
	want, err := r.wanted(ctx, v, change)
	if err != nil {
		return err
	}
	is := selectionOf(v.raw)
	if change.Restores == nil && v.image == change.To && change.To != "" || reflect.DeepEqual(is, want) {
		return nil
	}
	if err := v.maySet(change); err != nil {
		return err
	}
	u := unverified{is, want}
	mark, err := json.Marshal(u)
	if err != nil {
		return apiserver.Fail(opRecipe, v.String(), err)
	}
	now, err := r.patch(ctx, opRecipe, v.raw, want.patch(string(mark)))
	if err != nil {
		return err
	}
	return r.verify(ctx, v.name(), now, u)
}

// patch sets the recipe and the mark; nil removes the mark.
func (s selection) patch(mark any) object {
	return object{"metadata": object{"annotations": object{annotationUnverified: mark}}, "spec": object{"amiSelectorTerms": s.Terms, "amiFamily": s.AMIFamily}}
}

// wanted returns the recipe of a change.
func (r *PoolProvider) wanted(ctx context.Context, v view, change cloud.RecipeChange) (selection, error) {
	if change.Restores != nil {
		was, err := readBackup(v, change.Restores.Backup)
		if err != nil {
			return selection{}, err
		}
		if is, err := r.isVersion(ctx, v, was.Image); err != nil || is {
			return selectionOf(v.raw), err
		}
		return was.selection, nil
	}
	if v.image == change.To && change.To != "" {
		return selectionOf(v.raw), nil
	}
	if v.region == "" {
		return selection{}, v.refusals()[0].Error(opRecipe, v.String())
	}
	native, err := r.images.NativeImage(ctx, v.region, change.To)
	// An alias names a family, and an ID does not.
	return selection{Terms: []any{object{"id": native}}, AMIFamily: v.class.family()}, err
}

// maySet returns the reason why a change cannot be carried out.
func (v view) maySet(change cloud.RecipeChange) error {
	if v.owner() != "" {
		return v.refuseOwned(change.To).Error(opRecipe, v.String())
	}
	for _, refusal := range v.refusals() {
		return refusal.Error(opRecipe, v.String())
	}
	if v.image != change.From {
		return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.String(),
			Message: fmt.Sprintf("the image is %s, not %s as planned: another client changed the image", v.image, change.From)}
	}
	return nil
}

// verify reads the guards after a write. If one is gone, verify writes the former recipe, which ends the drift of the nodes that are left.
// A recipe that another client has written since stays.
func (r *PoolProvider) verify(ctx context.Context, class string, now *unstructured.Unstructured, u unverified) error {
	all, err := r.poolsOfClass(ctx, class)
	if err != nil {
		return err
	}
	refusal := refuseDrift(class, all)
	if refusal == nil || !reflect.DeepEqual(selectionOf(now), u.Written) {
		_, err := r.patch(ctx, opRecipe, now, object{"metadata": object{"annotations": object{annotationUnverified: nil}}})
		return err
	}
	if _, err := r.patch(ctx, "take back the recipe of", now, u.Former.patch(nil)); err != nil {
		return err
	}
	taken := *refusal
	taken.Message = "a disruption budget was removed during the promotion, so Kamino wrote the former image again: " + refusal.Message
	return taken.Error(opRecipe, kindClass+" "+class)
}
