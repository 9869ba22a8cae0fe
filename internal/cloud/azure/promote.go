package azure

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// emptyCloudConfig is customData that makes cloud-init do nothing.
const emptyCloudConfig = "#cloud-config\n{}\n"

// maxRecipeWrites is how often a call writes a recipe. Azure sometimes accepts the removal of an extension and then shows the
// extension again.
const maxRecipeWrites = 3

// SetRecipe implements cloud.PoolProvider with a merge patch of the scale set's model. With the Manual upgrade policy no
// running instance changes (see write). The size is not part of the patch.
func (p *PoolProvider) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	if change.Restores != nil {
		return p.restore(ctx, change)
	}
	r, err := versionOfPool(change.Pool, change.Version)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		model, err := p.modelToWrite(ctx, r.scaleSet)
		if err != nil {
			return err
		}
		left := remainingParts(r, model, change)
		if len(left) == 0 {
			return nil
		}
		if now := r.imageName(imageReference(model)); !strings.EqualFold(now, change.From) && !isVersion(imageReference(model), r) {
			return &cloud.Error{Kind: cloud.Conflict, Op: "set the recipe of", Resource: r.scaleSet.String(),
				Message: fmt.Sprintf("the image is %s, not %s as planned: another client changed the image", now, change.From)}
		}
		if try > maxRecipeWrites {
			return &cloud.Error{Kind: cloud.Conflict, Op: "set the recipe of", Resource: r.scaleSet.String(),
				Message: fmt.Sprintf("Azure accepted the change %d times, but still shows %s: find the client that reverts the change",
					maxRecipeWrites, strings.Join(left, ", "))}
		}
		answered, err := p.writeAnswered(ctx, "set the recipe of", r.scaleSet, model, recipePatch(r, model, change.Removes))
		if err != nil {
			return err
		}
		// Azure may show a removed extension again after the answer, so only a new read is conclusive.
		if answered != nil && !removesExtension(change.Removes) && len(remainingParts(r, *answered, change)) == 0 {
			return nil
		}
	}
}

func removesExtension(removes []cloud.RecipeField) bool {
	return slices.ContainsFunc(removes, func(p cloud.RecipeField) bool { return p.Kind == partExtension })
}

// remainingParts returns the parts of the change that the model does not show.
func remainingParts(r versionRef, model armcompute.VirtualMachineScaleSet, change cloud.RecipeChange) []string {
	var left []string
	if !isVersion(imageReference(model), r) {
		left = append(left, "image "+r.imageName(imageReference(model)))
	}
	if cloud.HasField(change.Removes, customData) && !customDataEmptied(r.scaleSet, model) {
		left = append(left, customData.String())
	}
	for _, extension := range extensionsOf(model) {
		if part := partOf(extension); cloud.HasField(change.Removes, part) {
			left = append(left, part.String())
		}
	}
	return left
}

// recipePatch returns the merge patch of a change. Publisher, offer, SKU and version must be null, or the reference would
// name two images.
func recipePatch(r versionRef, model armcompute.VirtualMachineScaleSet, removes []cloud.RecipeField) armcompute.VirtualMachineScaleSetUpdate {
	profile := &armcompute.VirtualMachineScaleSetUpdateVMProfile{
		StorageProfile: &armcompute.VirtualMachineScaleSetUpdateStorageProfile{
			ImageReference: &armcompute.ImageReference{
				ID:                      to.Ptr(r.id()),
				Publisher:               azcore.NullValue[*string](),
				Offer:                   azcore.NullValue[*string](),
				SKU:                     azcore.NullValue[*string](),
				Version:                 azcore.NullValue[*string](),
				SharedGalleryImageID:    nullIfSet(imageReference(model), sharedID),
				CommunityGalleryImageID: nullIfSet(imageReference(model), communityID),
			},
		},
	}
	patch := armcompute.VirtualMachineScaleSetUpdate{
		Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{VirtualMachineProfile: profile},
	}
	if cloud.HasField(removes, customData) {
		profile.OSProfile = &armcompute.VirtualMachineScaleSetUpdateOSProfile{
			CustomData: to.Ptr(base64.StdEncoding.EncodeToString([]byte(emptyCloudConfig))),
		}
		// All tags are sent, because the documentation does not say whether a patch merges tags.
		patch.Tags = map[string]*string{}
		for name, text := range model.Tags {
			patch.Tags[name] = text
		}
		patch.Tags[bootstrapRemovedTag] = to.Ptr(r.version)
	}
	if removesExtension(removes) {
		profile.ExtensionProfile = &armcompute.VirtualMachineScaleSetExtensionProfile{Extensions: keptExtensions(model, removes)}
	}
	return patch
}

func sharedID(image *armcompute.ImageReference) *string    { return image.SharedGalleryImageID }
func communityID(image *armcompute.ImageReference) *string { return image.CommunityGalleryImageID }

func nullIfSet(image *armcompute.ImageReference, field func(*armcompute.ImageReference) *string) *string {
	if image == nil || value(field(image)) == "" {
		return nil
	}
	return azcore.NullValue[*string]()
}

// keptExtensions returns the remaining extensions in the form of a request: without state, and without dependencies on
// removed extensions. Azure keeps protected settings that the request does not contain.
func keptExtensions(model armcompute.VirtualMachineScaleSet, removes []cloud.RecipeField) []*armcompute.VirtualMachineScaleSetExtension {
	goes := func(name string) bool {
		return cloud.HasField(removes, cloud.RecipeField{Kind: partExtension, Name: name})
	}
	kept := []*armcompute.VirtualMachineScaleSetExtension{}
	for _, extension := range extensionsOf(model) {
		if goes(value(extension.Name)) {
			continue
		}
		sent := &armcompute.VirtualMachineScaleSetExtension{Name: extension.Name}
		if extension.Properties != nil {
			properties := *extension.Properties
			properties.ProvisioningState = nil
			properties.ProvisionAfterExtensions = slices.DeleteFunc(slices.Clone(properties.ProvisionAfterExtensions), func(name *string) bool {
				return goes(value(name))
			})
			sent.Properties = &properties
		}
		kept = append(kept, sent)
	}
	return kept
}
