package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// opRecipe is the operation of SetRecipe in errors.
const opRecipe = "set the recipe of"

// partBootstrap is the kind of the bootstrap configuration in a recipe. The configuration always stays.
const partBootstrap = "bootstrap"

// backup is the recipe before a promotion.
type backup struct {
	Pool     cloud.PoolID `json:"pool"`
	Kind     string       `json:"kind"`
	Template string       `json:"template"`
	Image    string       `json:"image"`
	// Overrides are the overrides of the image's variables, for a pool of a topology.
	Overrides []override `json:"overrides,omitempty"`
	// Written is the image field of a MachinePool's infrastructure.
	Written any `json:"written,omitempty"`
}

// RecipeChange implements cloud.PoolProvider. Only the image changes, because new machines need the bootstrap
// configuration to join.
func (r *PoolProvider) RecipeChange(ctx context.Context, to cloud.Target, _ bool) (cloud.RecipeChange, error) {
	v, err := r.view(ctx, to.Pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	change := cloud.RecipeChange{
		Pool: v.ref.pool(), Version: to.Version, From: v.image, To: to.Image, Done: v.image == to.Image && len(v.pending()) == 0, Refusals: v.refusalsToWrite(),
	}
	for _, name := range v.bootstrap() {
		change.Keeps = append(change.Keeps, cloud.RecipeField{Kind: partBootstrap, Name: name})
	}
	differs, err := r.otherKubernetes(ctx, v, to.Version)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	change.Refusals = append(change.Refusals, differs...)
	change.Backup, err = json.MarshalIndent(backup{
		Pool: v.ref.pool(), Kind: v.named.Kind, Template: v.named.name, Image: v.image, Overrides: v.topology.overrides(), Written: v.savedImageField(),
	}, "", "  ")
	return change, apiserver.Fail("save the recipe of", v.ref.String(), err)
}

// RestoreChange implements cloud.PoolProvider and restores the image of the template. Promotions change nothing else.
func (r *PoolProvider) RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	v, err := r.view(ctx, pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	was, err := readBackup(v.ref, saved.Backup)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	to := cloud.Target{Pool: pool, Image: was.Image}
	if version, _ := r.images.VersionOf(r.family(v.at, v.ref), was.Image); version != "" { // only a rollback returns to a version of the pool
		to.Image = v.image
	}
	change, err := r.RecipeChange(ctx, to, false)
	change.Backup, change.Restores = nil, &saved
	return change, err
}

// readBackup parses a backup, and refuses the backup of another pool.
func readBackup(of ref, data []byte) (backup, error) {
	var was backup
	var message string
	switch err := utiljson.Unmarshal(data, &was); { // numbers as in objects
	case err != nil || was.Kind == "" || was.Image == "":
		message = "the backup is not a recipe of Cluster API with an image"
	case was.Pool != of.pool():
		message = "the backup is a recipe of " + string(was.Pool)
	default:
		return was, nil
	}
	return was, &cloud.Error{Kind: cloud.Invalid, Op: "restore the recipe of", Resource: of.String(), Message: message}
}

// otherKubernetes refuses a version whose kubelet differs from the pool's Kubernetes version. An unknown version is not
// compared.
func (r *clusterAccess) otherKubernetes(ctx context.Context, v poolView, version string) ([]cloud.Refusal, error) {
	asked := v.pool.text("spec", "template", "spec", "version")
	if asked == "" || version == "" {
		return nil, nil
	}
	image, err := r.images.Image(ctx, cloud.FamilyVersion{Family: r.family(v.at, v.ref), Version: version})
	has := image.Tags[cloud.TagKubelet]
	if err != nil || has == "" || strings.TrimPrefix(has, "v") == strings.TrimPrefix(asked, "v") {
		return nil, err
	}
	return []cloud.Refusal{cloud.Refuse(reasonKubernetes,
		fmt.Sprintf("%s asks for Kubernetes %s, but the kubelet of version %s is %s", v.ref, asked, version, has),
		"capture a node of the pool's version")}, nil
}

// SetRecipe implements cloud.PoolProvider: a copy of the template with the image, and the pool's reference to the copy in
// a single conditional write. Templates are immutable, so the source of the copy does not change.
func (r *PoolProvider) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	return apiserver.RetryOnConflict(func() error { return r.setRecipe(cloud.WithoutReadCache(ctx), change) })
}

func (r *PoolProvider) setRecipe(ctx context.Context, change cloud.RecipeChange) error {
	if err := r.requireNotMoved(ctx, opRecipe); err != nil {
		return err
	}
	v, err := r.view(ctx, change.Pool)
	if err == nil && v.topology != nil {
		return r.setVariables(ctx, v, change)
	}
	switch done := v.image == change.To && change.To != ""; {
	case err != nil:
		return err
	case done && v.group != nil:
		return r.waitForImage(ctx, change)
	case done:
		return nil
	}
	if err := r.maySet(ctx, v, change); err != nil {
		return err
	}
	native, err := r.images.NativeImage(ctx, v.at.place, change.To)
	if err != nil {
		return err
	}
	if v.resource == machinePools {
		err = r.writeImage(ctx, v, change, native)
	} else {
		err = r.nameTemplate(ctx, v, change, native)
	}
	switch {
	case err != nil:
		return err
	case v.group != nil:
		return r.waitForImage(ctx, change)
	}
	switch v, err = r.view(ctx, change.Pool); {
	case err != nil:
		return err
	case v.image != change.To:
		return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(),
			Message: fmt.Sprintf("the recipe was set to %s, but shows %s: another client changed the recipe", change.To, v.image)}
	}
	r.deleteUnusedCopies(ctx, v)
	return nil
}

// nameTemplate points a pool to a template with the image.
func (r *clusterAccess) nameTemplate(ctx context.Context, v poolView, change cloud.RecipeChange, native string) error {
	template, err := r.templateFor(ctx, v, change, native)
	if err == nil {
		_, err = r.kube.patch(ctx, opRecipe, v.pool, referenceTo(template.GetName()))
	}
	return err
}

// maySet returns the reason why a change cannot be carried out on the pool.
func (r *clusterAccess) maySet(ctx context.Context, v poolView, change cloud.RecipeChange) error {
	if refusals := v.refusals(); len(refusals) > 0 {
		err := refusals[0].Error(opRecipe, v.ref.String())
		if v.missing && refusals[0].Reason == reasonTemplate { // the template may be created again
			err.Kind = cloud.NotFound
		}
		return err
	}
	if v.image != change.From {
		return &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(),
			Message: fmt.Sprintf("the image is %s, not %s as planned: another client changed the image", v.image, change.From)}
	}
	differs, err := r.otherKubernetes(ctx, v, change.Version)
	if err == nil && len(differs) > 0 {
		return differs[0].Error(opRecipe, v.ref.String())
	}
	return err
}

// referenceTo returns the patch that points a pool to another template of the same kind.
func referenceTo(name string) map[string]any {
	change := map[string]any{}
	_ = unstructured.SetNestedField(change, name, append(pathInfrastructure, "name")...)
	return change
}

// lastApplied is kubectl's annotation, which describes the original and not the copy.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// copyFor returns the copy of a template with the image. The name contains pool, version and a digest of the content, so
// that different templates never share a name.
func copyFor(v poolView, version, native string) (object, error) {
	made := object{&unstructured.Unstructured{Object: map[string]any{"spec": v.template.DeepCopy().Object["spec"]}}}
	if err := v.of.setImage(specOf(made, pathOfTemplate...), native); err != nil {
		return object{}, err
	}
	said, err := json.Marshal(made.Object)
	if err != nil {
		return object{}, apiserver.Fail("copy", v.template.String(), err)
	}
	made.SetAPIVersion(v.template.GetAPIVersion())
	made.SetKind(v.template.GetKind())
	made.SetNamespace(v.namespace)
	suffix := strings.TrimSuffix("-"+version, "-") + "-" + digest(said)
	made.SetName(shorten(v.name, maxObjectName-len(suffix)) + suffix)
	made.SetLabels(maps.Clone(v.template.GetLabels()))
	annotations := maps.Clone(v.template.GetAnnotations())
	delete(annotations, lastApplied)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationPool] = string(v.ref.pool())
	if annotations[annotationVersion] = version; version == "" { // the image is not a version of the pool
		delete(annotations, annotationVersion)
	}
	made.SetAnnotations(annotations)
	return made, nil
}

// templateFor returns the template for the pool: the saved template of a restoration if its content is right, else a
// copy, created if missing.
func (r *clusterAccess) templateFor(ctx context.Context, v poolView, change cloud.RecipeChange, native string) (object, error) {
	want, err := copyFor(v, change.Version, native)
	if err != nil {
		return object{}, err
	}
	if change.Restores != nil {
		was, err := readBackup(v.ref, change.Restores.Backup)
		if err != nil {
			return object{}, err
		}
		former, err := r.kube.get(ctx, v.named.GroupKind, was.Template)
		if err == nil && !former.deleting() && reflect.DeepEqual(former.Object["spec"], want.Object["spec"]) {
			return former, nil
		}
		if err != nil && !cloud.Is(err, cloud.NotFound) {
			return object{}, err
		}
	}
	made, err := r.kube.create(ctx, opRecipe, want)
	if !cloud.Is(err, cloud.Conflict) {
		return made, err
	}
	there, err := r.kube.get(ctx, v.named.GroupKind, want.GetName())
	switch {
	case err != nil:
		return object{}, err
	case there.deleting() || v.of.image(specOf(there, pathOfTemplate...)) != native:
		return object{}, &cloud.Error{Kind: cloud.Conflict, Op: opRecipe, Resource: v.ref.String(),
			Message: there.String() + " is being deleted, or names another image: delete the template, and promote again"}
	}
	return there, nil
}

// deleteUnusedCopies deletes copies for missing versions of the pool, unless a pool or MachineSet names the copy. Errors are ignored:
// the next promotion deletes the rest.
func (r *clusterAccess) deleteUnusedCopies(ctx context.Context, v poolView) {
	if v.resource == machinePools { // a MachinePool has no copies
		return
	}
	named := map[string]bool{v.named.name: true}
	for _, kind := range []string{kindDeployment, kindSet} {
		all, err := r.kube.list(ctx, core(kind), "")
		if err != nil {
			return
		}
		for _, o := range all {
			named[o.reference(pathInfrastructure...).name] = true
		}
	}
	templates, err := r.kube.list(ctx, v.named.GroupKind, "")
	if err != nil {
		return
	}
	for _, t := range templates {
		version := t.GetAnnotations()[annotationVersion]
		if t.GetAnnotations()[annotationPool] != string(v.ref.pool()) || version == "" || named[t.GetName()] || t.deleting() {
			continue
		}
		image, err := r.images.Image(ctx, cloud.FamilyVersion{Family: r.family(v.at, v.ref), Version: version})
		if err == nil && image.State == cloud.Absent {
			_ = r.kube.remove(ctx, "retire", t)
		}
	}
}
