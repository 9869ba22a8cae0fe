package capture

import (
	"cmp"
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Preview is what a capture would do, found without changing anything.
type Preview struct {
	// Refusals: why it would not begin. The rest is filled in as far as it can be.
	Refusals []cloud.Refusal `json:"refusals,omitempty"`
	// Evicts are the pods that would leave the donor, as namespace/name.
	Evicts []string `json:"evicts,omitempty"`
	// Departure is what it costs that the donor does not return; nil if it does.
	Departure *admission.Departure `json:"departure,omitempty"`
	// Change is what happens to the recipe.
	Change *cloud.RecipeChange `json:"change,omitempty"`
	// NoWayBack tells that the recipe names no version of the pool's own, which are all that a rollback leads to.
	NoWayBack bool `json:"noWayBack,omitempty"`
	// Crowded says that the pool's nodes were built from nearly as many images as its cloud allows; empty if not.
	Crowded string `json:"crowded,omitempty"`
	// Retires are the versions that would go.
	Retires []string `json:"retires,omitempty"`
}

// Refusals looks for every reason against capturing the Prototype. None means that it would begin; an error, that nothing
// is known to speak against it and not all could be looked at. The Prototype need not exist.
func (e *Engine) Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	w, err := e.look(cloud.EnsureReadCache(ctx), p, v1alpha1.Record{}, nil)
	if err != nil {
		return nil, err
	}
	return w.refusals, nil
}

// Preview looks at what capturing the Prototype would do. The Prototype need not exist. With an error it tells as much as
// could be found.
func (e *Engine) Preview(ctx context.Context, p *v1alpha1.Prototype) (Preview, error) {
	ctx = cloud.WithReadCache(ctx)
	w, err := e.look(ctx, p, v1alpha1.Record{}, nil)
	if w == nil {
		return Preview{}, err
	}
	preview := Preview{Refusals: w.refusals, Evicts: w.left.Names(), Crowded: w.crowded}
	if w.admission != nil {
		preview.Departure = w.admission.Departure()
	}
	if w.recipe.ID == "" {
		return preview, w.unread
	}
	change, err := e.Cloud.RecipeChange(ctx, w.ref(), removesBootstrap(p))
	if err != nil {
		return preview, cmp.Or(w.unread, err)
	}
	preview.Change, preview.NoWayBack = &change, w.recipe.Recipe.Version == ""
	images, err := e.Cloud.Images(ctx, w.pool)
	if err != nil {
		return preview, cmp.Or(w.unread, err)
	}
	images = append(images, cloud.Image{Version: p.Spec.Version, State: cloud.Complete})
	preview.Retires, err = promotionOf(e).retirable(ctx, w.pool, images, p.Spec.Version, int(p.Spec.Settings.Defaulted().Keep))
	return preview, cmp.Or(w.unread, err)
}
