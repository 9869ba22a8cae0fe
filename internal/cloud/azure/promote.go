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

// emptyCloudConfig is customData that cloud-init takes and does nothing with.
const emptyCloudConfig = "#cloud-config\n{}\n"

// recipeTries is how often a recipe is written in one call: Azure has been seen to accept the removal of an
// extension and to show it again afterwards.
const recipeTries = 3

// SetRecipe implements cloud.PoolProvider. It is one merge patch of the scale set's model, which on the Manual
// upgrade policy changes no running instance (see write). The number of nodes is not part of it.
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
		left := leftToDo(r, model, change)
		if len(left) == 0 {
			return nil
		}
		if now := r.imageName(imageReference(model)); !strings.EqualFold(now, change.From) && !isVersion(imageReference(model), r) {
			return &cloud.Error{Kind: cloud.Conflict, Op: "set the recipe of", Resource: r.scaleSet.String(),
				Message: fmt.Sprintf("its image is %s, not %s as when the change was made: somebody else changed it", now, change.From)}
		}
		if try > recipeTries {
			return &cloud.Error{Kind: cloud.Conflict, Op: "set the recipe of", Resource: r.scaleSet.String(),
				Message: fmt.Sprintf("Azure took the change %d times and still shows %s: look for who puts it back", recipeTries, strings.Join(left, ", "))}
		}
		answered, err := p.writeAnswered(ctx, "set the recipe of", r.scaleSet, model, recipePatch(r, model, change.Removes))
		if err != nil {
			return err
		}
		// Azure may show a removed extension again after the answer: then only another read tells.
		if answered != nil && !removesExtension(change.Removes) && len(leftToDo(r, *answered, change)) == 0 {
			return nil
		}
	}
}

func removesExtension(removes []cloud.RecipeField) bool {
	return slices.ContainsFunc(removes, func(p cloud.RecipeField) bool { return p.Kind == partExtension })
}

// leftToDo names what of the change the model does not show.
func leftToDo(r versionRef, model armcompute.VirtualMachineScaleSet, change cloud.RecipeChange) []string {
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

// recipePatch is the merge patch that carries a change out. Publisher, offer, SKU and version must be
// nulled, or the patched reference would name two images.
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
		// All tags are sent, for the documentation leaves open whether those of a patch are merged.
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

// keptExtensions are the extensions that stay, as they may be sent back: without their state, and without
// waiting for an extension that goes. Azure keeps the protected settings of an extension that is sent
// without them.
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
