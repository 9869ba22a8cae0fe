package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// beginInPool grows the pool by an instance of the version. Image, capacity and mark change in a single conditional write. With
// the Manual policy running instances stay unchanged.
func (p trials) beginInPool(ctx context.Context, t trialRef) error {
	conflict := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Conflict, Op: opTrial, Resource: t.scaleSet.String(), Message: fmt.Sprintf(format, args...)}
	}
	model, err := p.modelToWrite(ctx, t.scaleSet)
	if err != nil {
		return err
	}
	have := markOf(model)
	image := t.imageName(imageReference(model))
	switch {
	case have.name == t.spec.Name:
		return nil
	case have.name != "":
		return conflict("trial %s is in the pool: wait until the trial has ended", have.name)
	case !strings.EqualFold(image, t.spec.Image):
		return conflict("the image is %s, not %s: another client changed the image", image, t.spec.Image)
	case capacityOf(model) != t.spec.Capacity:
		return conflict("the pool has %d nodes, not %d: another client changed the size", capacityOf(model), t.spec.Capacity)
	}
	if refusal, err := promotionRemoves(t, model); err != nil {
		return err
	} else if refusal != nil {
		return refusal.Error(opTrial, t.scaleSet.String())
	}
	there, err := p.builtFrom(ctx, t, t.scaleSet)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return conflict("%s was already built from version %s", there[0], t.version)
	}
	patch := recipePatch(t.versionRef, model, nil)
	patch.SKU = &armcompute.SKU{Name: model.SKU.Name, Tier: model.SKU.Tier, Capacity: to.Ptr(t.spec.Capacity + 1)}
	patch.Tags = tagsOfOpenTrial(model, t.spec)
	return p.write(ctx, opTrial, t.scaleSet, model, patch)
}

// promotionRemoves refuses a trial in the pool if the promotion removes parts of the recipe.
func promotionRemoves(t trialRef, model armcompute.VirtualMachineScaleSet) (*cloud.Refusal, error) {
	change, err := recipeChange(t.versionRef, model, t.spec.RemoveBootstrap)
	if err != nil || len(change.Removes) == 0 {
		return nil, err
	}
	var names []string
	for _, part := range change.Removes {
		names = append(names, part.String())
	}
	refusal := cloud.Refuse(cloud.PromotionRemoves, fmt.Sprintf(
		"the promotion removes %s from the recipe of %s, but a trial in the pool changes only the image", strings.Join(names, ", "), t.scaleSet), "try versions apart (settings.trial.mode: Apart)")
	return &refusal, nil
}

// closeInPool restores the recipe's image, if the recipe still names the version for this trial. Any other image stays. The
// mark then shows that the trial is closed.
func (p trials) closeInPool(ctx context.Context, t trialRef, model armcompute.VirtualMachineScaleSet) error {
	if have := markOf(model); have.name != t.spec.Name || !have.open {
		return nil
	}
	var patch armcompute.VirtualMachineScaleSetUpdate
	if t.matches(imageReference(model)) {
		back := restoration{scaleSet: t.scaleSet, was: backup{ImageReference: imageNamed(t.spec.Image)}}
		patch = back.patch(model)
		vacant, err := p.isUnfilled(ctx, t, model)
		if err != nil {
			return err
		}
		if vacant { // otherwise the pool would fill the place from the restored image
			patch.SKU = &armcompute.SKU{Name: model.SKU.Name, Tier: model.SKU.Tier, Capacity: to.Ptr(capacityOf(model) - 1)}
		}
	}
	patch.Tags = tagsWithMark(model, t.spec.Name+closedMark)
	return p.write(ctx, "close the trial in", t.scaleSet, model, patch)
}

// isUnfilled reports whether Azure could not make the trial's instance. The scale set failed, has no instance of the version,
// and has fewer instances than its capacity, so a smaller capacity removes no instance.
func (p trials) isUnfilled(ctx context.Context, t trialRef, model armcompute.VirtualMachineScaleSet) (bool, error) {
	if !strings.EqualFold(provisioning(model), "Failed") {
		return false, nil
	}
	all, err := p.Instances(cloud.WithoutReadCache(ctx), t.pool())
	if err != nil {
		return false, err
	}
	for _, m := range all {
		if m.BuiltFrom == t.version {
			return false, nil
		}
	}
	return int64(len(all)) < capacityOf(model), nil
}

// imageNamed parses the text of imageName.
func imageNamed(text string) *armcompute.ImageReference {
	parts := strings.Split(text, ":")
	switch {
	case strings.HasPrefix(strings.ToLower(text), "/sharedgalleries/"):
		return &armcompute.ImageReference{SharedGalleryImageID: to.Ptr(text)}
	case strings.HasPrefix(strings.ToLower(text), "/communitygalleries/"):
		return &armcompute.ImageReference{CommunityGalleryImageID: to.Ptr(text)}
	case strings.HasPrefix(text, "/") || len(parts) != 4:
		return &armcompute.ImageReference{ID: to.Ptr(text)}
	}
	return &armcompute.ImageReference{Publisher: &parts[0], Offer: &parts[1], SKU: &parts[2], Version: &parts[3]}
}

// endInPool ends a trial in the pool: restore the recipe, remove the instances with their places, remove the mark.
func (p trials) endInPool(ctx context.Context, t trialRef) (cloud.State, error) {
	model, err := p.modelToWrite(cloud.WithoutReadCache(ctx), t.scaleSet)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	}
	have := markOf(model)
	promoted := !have.open && t.matches(imageReference(model))
	switch {
	case have.name != t.spec.Name:
		return cloud.Absent, nil
	case have.open: // the next call continues with the current scale set
		return cloud.Deleting, p.closeInPool(ctx, t, model)
	}
	if !promoted {
		left, err := p.builtFrom(cloud.WithoutReadCache(ctx), t, t.scaleSet)
		if err != nil {
			return cloud.Absent, err
		}
		gone := true
		for _, vm := range left {
			state, err := p.EnsureRemoved(ctx, vm.providerID())
			if err != nil {
				return cloud.Absent, err
			}
			gone = gone && state == cloud.Absent
		}
		if !gone {
			return cloud.Deleting, nil
		}
		if model, err = p.modelToWrite(cloud.WithoutReadCache(ctx), t.scaleSet); err != nil {
			return cloud.Absent, err
		}
	}
	if err := p.write(ctx, "end the trial in", t.scaleSet, model, armcompute.VirtualMachineScaleSetUpdate{Tags: tagsWithoutTrial(model)}); err != nil {
		return cloud.Absent, err
	}
	return cloud.Absent, nil
}
