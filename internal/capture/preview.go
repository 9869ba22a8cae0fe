package capture

import (
	"cmp"
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Refusals returns all reasons against capturing the Prototype, which need not exist. Nil means that the capture would
// begin. An error means no known reason, but incomplete facts.
func (e *Engine) Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	w, err := e.rooms().observeAsNew(cloud.EnsureReadCache(ctx), p)
	if err != nil {
		return nil, err
	}
	return w.preflight.refusals, nil
}

// Preview returns the plan of a capture of the Prototype, which need not exist. With an error, the result has all known
// parts. What seen has is not read again.
func (e *Engine) Preview(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (admission.Preview, error) {
	ctx = cloud.EnsureReadCache(ctx)
	r := e.rooms()
	r.preflight.seen, r.donors.seen = seen, seen
	w, err := r.observeAsNew(ctx, p)
	if w == nil {
		return admission.Preview{}, err
	}
	r.preflight.askEvictions(ctx, w)
	preview := admission.Preview{Refusals: w.preflight.refusals, Evicts: w.donor.remainingPods.Names(), ImageLimitWarning: w.preflight.imageLimitWarning}
	if w.preflight.admission != nil {
		preview.Copy = w.preflight.admission.CopyCost()
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

// Case returns the facts for the admission of the Prototype, which need not exist. The error means that the Node or the
// pools of nodes are unreadable. What seen has is not read again, nor what is under the caller's cloud.WithReadCache.
func (e *Engine) Case(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (*admission.Case, error) {
	r := e.rooms()
	r.preflight.seen, r.donors.seen = seen, seen
	w, err := r.observeAsNew(ctx, p)
	if w == nil {
		return nil, err
	}
	r.preflight.askEvictions(ctx, w)
	return w.preflight.admission, nil
}

// askEvictions asks the API server whether budgets would block the evictions, as a dry run, and judges the case again.
func (q preflight) askEvictions(ctx context.Context, w *pass) {
	if w.preflight.admission == nil || w.preflight.admission.Again || len(w.donor.remainingPods.Pods) == 0 {
		return
	}
	found, err := w.preflight.admission.Pods.Get()
	if err != nil {
		return
	}
	for _, b := range node.HeldBack(ctx, q.kube, w.donor.remainingPods) {
		found.Blocked = append(found.Blocked, b.String())
	}
	w.preflight.admission.Pods = admission.Found(found)
	w.preflight.refusals = w.preflight.admission.Judge().Refusals
}
