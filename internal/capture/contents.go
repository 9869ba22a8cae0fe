package capture

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/contents"
)

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
	image, err := m.Cloud.Image(ctx, cloud.ImageRef{Pool: w.pool, Version: now})
	if err != nil || image.Tags[cloud.TagContents] == "" {
		return
	}
	before := &v1alpha1.Prototype{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: image.Tags[cloud.TagPrototype]}, before); err != nil {
		m.Log.V(1).Info("the contents of the version in the recipe are unknown", "prototype", w.p.Name, "version", now, "error", err.Error())
		return
	}
	w.promotion.contentsChange = contents.Compare(w.p.Spec.Pool, contents.OfImage(image).Read(before), contents.OfImage(w.image.version).Read(w.p)).Line()
}

// compared is the comparison as the end of a message; empty without a comparison.
func compared(r *v1alpha1.RecipeStatus) string {
	if r == nil || r.Contents == "" {
		return ""
	}
	return "; " + r.Contents
}
