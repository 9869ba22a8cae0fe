package capture

import (
	"cmp"
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// Refusals returns all reasons against capturing the Prototype, which need not exist. Nil means that the capture would
// begin. An error means no known reason, but incomplete facts.
func (e *Engine) Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	w, err := e.rooms().observeCase(cloud.EnsureReadCache(ctx), p)
	if err != nil {
		return nil, err
	}
	return w.preflight.refusals, nil
}

// Preview returns the plan of a capture of the Prototype, which need not exist. With an error, the result has all known
// parts.
func (e *Engine) Preview(ctx context.Context, p *v1alpha1.Prototype) (admission.Preview, error) {
	ctx = cloud.WithReadCache(ctx)
	r := e.rooms()
	w, err := r.observeCase(ctx, p)
	if w == nil {
		return admission.Preview{}, err
	}
	r.preflight.askEvictions(ctx, w)
	if p.Spec.AddsDonor() {
		w.donor.remainingPods = node.Remaining{} // of a node like the donor
	}
	preview := admission.Preview{Refusals: w.preflight.refusals, Evicts: w.donor.remainingPods.Names(), ImageLimitWarning: w.preflight.imageLimitWarning}
	if w.preflight.admission != nil {
		preview.Removal = w.preflight.admission.RemovalCost()
	}
	more, check, err := r.patchSets.preview(ctx, p)
	w.preflight.admissionErr = cmp.Or(w.preflight.admissionErr, err)
	preview.Refusals, preview.PatchCheck = append(preview.Refusals, more...), check
	if w.promotion.recipe.ID == "" {
		return preview, w.preflight.admissionErr
	}
	change, err := e.Cloud.RecipeChange(ctx, w.ref(), removesBootstrap(p))
	if err != nil {
		return preview, cmp.Or(w.preflight.admissionErr, err)
	}
	preview.Change, preview.Irreversible = &change, w.promotion.recipe.Recipe.Version == ""
	images, err := e.Cloud.Images(ctx, w.pool)
	if err != nil {
		return preview, cmp.Or(w.preflight.admissionErr, err)
	}
	images = append(images, cloud.Image{Version: p.Spec.Version, State: cloud.Complete})
	preview.Retires, err = r.promotion.retirable(ctx, w.pool, images, p.Spec.Version, int(p.Spec.Settings.Defaulted().Keep))
	return preview, cmp.Or(w.preflight.admissionErr, err)
}
