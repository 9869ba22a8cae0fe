package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opRestore = "restore the recipe of"

// withoutProtected is the note on a restored extension without given settings.
const withoutProtected = "without protected settings, which Azure never returns"

// maxCustomData is Azure's limit of customData in bytes. Source: API reference, osProfile.customData.
const maxCustomData = 65535

// restoration is the change from a model to a saved recipe.
type restoration struct {
	scaleSet
	was backup
	// adds are the restored extensions, with the given protected settings.
	adds []*armcompute.VirtualMachineScaleSetExtension
	// data is the restored customData; nil without customData.
	data []byte
	// keepsImage is true if the backup names a version of the pool. Only a rollback returns to a version.
	keepsImage bool
}

// RestoreChange implements cloud.PoolProvider.
func (p *PoolProvider) RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	s, err := parsePool(pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	model, err := p.model(ctx, s)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	_, change, err := restoreChange(s, model, saved)
	return change, err
}

func restoreChange(s scaleSet, model armcompute.VirtualMachineScaleSet, saved cloud.Saved) (restoration, cloud.RecipeChange, error) {
	r := restoration{scaleSet: s}
	if err := r.parseBackup(saved.Backup); err != nil {
		return r, cloud.RecipeChange{}, err
	}
	now := imageReference(model)
	change := cloud.RecipeChange{Pool: s.pool(), From: s.imageName(now), Restores: &saved, Refusals: refusalsOfWrite(s, model)}
	if change.To = s.imageName(r.was.ImageReference); r.keepsImage {
		change.To = change.From
	}
	for _, extension := range extensionsOf(model) {
		change.Keeps = append(change.Keeps, partOf(extension))
	}
	sameImage := strings.EqualFold(change.From, change.To)
	r.customData(&change, saved, sameImage && !hasTag(model.Tags, bootstrapRemovedTag))
	if err := r.extensions(&change, saved); err != nil {
		return r, cloud.RecipeChange{}, err
	}
	change.Done = sameImage && len(change.Adds) == 0
	return r, change, nil
}

// parseBackup parses a backup, and refuses the backup of another scale set.
func (r *restoration) parseBackup(data []byte) error {
	invalid := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Invalid, Op: opRestore, Resource: r.String(), Message: fmt.Sprintf(format, args...)}
	}
	if err := json.Unmarshal(data, &r.was); err != nil || r.was.ImageReference == nil {
		return invalid("the backup is not a recipe of a scale set")
	}
	if of, err := parsePool(r.was.Pool); err != nil || of.pool() != r.pool() {
		return invalid("the backup is a recipe of %s", r.was.Pool)
	}
	_, _, r.keepsImage = r.versionOf(value(r.was.ImageReference.ID))
	if r.was.Removes == nil { // an old backup without the field: customData was removed with the first image of Kamino
		if !r.keepsImage {
			r.was.Removes = append(r.was.Removes, customData)
		}
		for _, extension := range r.was.Extensions {
			part := partOf(extension)
			part.Unreadable = !hasReadableCommand(extension)
			r.was.Removes = append(r.was.Removes, part)
		}
	}
	return nil
}

// customData restores customData if removed and given. Azure never returns customData. The restored image and the missing
// bootstrapRemovedTag show the restoration.
func (r *restoration) customData(change *cloud.RecipeChange, saved cloud.Saved, back bool) {
	given, isGiven := saved.Given[customData.String()]
	if len(given) > maxCustomData {
		change.Refusals = append(change.Refusals, cloud.Refuse(cloud.CustomDataUnusable,
			fmt.Sprintf("the given customData has %d bytes, but Azure's limit is %d", len(given), maxCustomData),
			"pass the original customData of the pool, with gzip if the original was compressed"))
	}
	switch {
	case !cloud.HasField(r.was.Removes, customData) || back:
	case !isGiven:
		change.Missing = append(change.Missing, customData)
	default:
		r.data = given
		change.Adds = append(change.Adds, cloud.RecipeField{Kind: partCustomData, Note: cloud.Digest(given)})
	}
}

// extensions restores missing extensions. An existing extension of the same name stays unchanged.
func (r *restoration) extensions(change *cloud.RecipeChange, saved cloud.Saved) error {
	for _, extension := range r.was.Extensions {
		part := partOf(extension)
		if cloud.HasField(change.Keeps, part) {
			continue
		}
		given, isGiven := saved.Given[part.String()]
		if !isGiven && cloud.HasField(cloud.Unreadable(r.was.Removes), part) {
			part.Unreadable, part.Note = true, "the command is in the protected settings, which Azure never returns"
			change.Missing = append(change.Missing, part)
			continue
		}
		sent := sendable(extension)
		part.Note, part.Unreadable = withoutProtected, true
		if isGiven {
			var settings map[string]any
			if err := json.Unmarshal(given, &settings); err != nil {
				return &cloud.Error{Kind: cloud.Invalid, Op: opRestore, Resource: r.String(),
					Message: fmt.Sprintf("the given protected settings of %s are not a JSON object", part)}
			}
			sent.Properties.ProtectedSettings = settings
			part.Unreadable = false
			part.Note = "with protected settings of " + cloud.Digest(given)
		}
		r.adds = append(r.adds, sent)
		change.Adds = append(change.Adds, part)
	}
	return nil
}

// sendable returns an extension in the form of a request, without state. Azure keeps the protected settings of an
// existing extension.
func sendable(extension *armcompute.VirtualMachineScaleSetExtension) *armcompute.VirtualMachineScaleSetExtension {
	sent := &armcompute.VirtualMachineScaleSetExtension{Name: extension.Name, Properties: &armcompute.VirtualMachineScaleSetExtensionProperties{}}
	if extension.Properties != nil {
		*sent.Properties = *extension.Properties
		sent.Properties.ProvisioningState = nil
		sent.Properties.ProvisionAfterExtensions = slices.Clone(extension.Properties.ProvisionAfterExtensions)
	}
	return sent
}

// restore is SetRecipe for a change of RestoreChange. The same read is the base of the check and of the conditional
// write.
func (p *PoolProvider) restore(ctx context.Context, change cloud.RecipeChange) error {
	s, err := parsePool(change.Pool)
	if err != nil {
		return err
	}
	conflict := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Conflict, Op: opRestore, Resource: s.String(), Message: fmt.Sprintf(format, args...)}
	}
	for try := 1; ; try++ {
		model, err := p.modelToWrite(ctx, s)
		if err != nil {
			return err
		}
		r, now, err := restoreChange(s, model, *change.Restores)
		switch {
		case err != nil || now.Done:
			return err
		case try > maxRecipeWrites:
			return conflict("Azure accepted the change %d times, but does not show the change: find the client that reverts the change", maxRecipeWrites)
		case try > 1:
		case !strings.EqualFold(now.From, change.From):
			return conflict("the image is %s, not %s as planned: another client changed the image", now.From, change.From)
		case !cloud.SameFields(now.Keeps, change.Keeps):
			return conflict("the extensions are not as planned: another client changed the extensions")
		}
		if err := p.write(ctx, opRestore, s, model, r.patch(model)); err != nil {
			return err
		}
	}
}

// patch returns the merge patch of the restoration. Fields of the other image must be null, or the reference would name
// two images.
func (r *restoration) patch(model armcompute.VirtualMachineScaleSet) armcompute.VirtualMachineScaleSetUpdate {
	profile := &armcompute.VirtualMachineScaleSetUpdateVMProfile{}
	patch := armcompute.VirtualMachineScaleSetUpdate{Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{VirtualMachineProfile: profile}}
	if !r.keepsImage {
		was := r.was.ImageReference
		orNull := func(field *string) *string {
			if value(field) == "" {
				return azcore.NullValue[*string]()
			}
			return field
		}
		now := imageReference(model)
		if now == nil {
			now = &armcompute.ImageReference{}
		}
		sent := &armcompute.ImageReference{
			ID: orNull(was.ID), Publisher: orNull(was.Publisher), Offer: orNull(was.Offer), SKU: orNull(was.SKU), Version: orNull(was.Version),
			SharedGalleryImageID: was.SharedGalleryImageID, CommunityGalleryImageID: was.CommunityGalleryImageID,
		}
		if value(sent.SharedGalleryImageID) == "" {
			sent.SharedGalleryImageID = nullIfSet(now, sharedID)
		}
		if value(sent.CommunityGalleryImageID) == "" {
			sent.CommunityGalleryImageID = nullIfSet(now, communityID)
		}
		profile.StorageProfile = &armcompute.VirtualMachineScaleSetUpdateStorageProfile{ImageReference: sent}
	}
	if r.data != nil {
		profile.OSProfile = &armcompute.VirtualMachineScaleSetUpdateOSProfile{CustomData: to.Ptr(base64.StdEncoding.EncodeToString(r.data))}
		// All tags are sent, as in recipePatch. An empty tag is absent, with or without merging.
		patch.Tags = map[string]*string{}
		for name, text := range model.Tags {
			if !strings.EqualFold(name, bootstrapRemovedTag) {
				patch.Tags[name] = text
			}
		}
		patch.Tags[bootstrapRemovedTag] = to.Ptr("")
	}
	if len(r.adds) > 0 {
		profile.ExtensionProfile = &armcompute.VirtualMachineScaleSetExtensionProfile{Extensions: r.all(model)}
	}
	return patch
}

// all returns the existing extensions, with restored dependencies, and the restored extensions.
func (r *restoration) all(model armcompute.VirtualMachineScaleSet) []*armcompute.VirtualMachineScaleSetExtension {
	var all []*armcompute.VirtualMachineScaleSetExtension
	for _, extension := range extensionsOf(model) {
		sent := sendable(extension)
		for _, after := range r.was.Waits[value(extension.Name)] {
			back := slices.ContainsFunc(r.adds, func(e *armcompute.VirtualMachineScaleSetExtension) bool { return value(e.Name) == after })
			if waits := sent.Properties.ProvisionAfterExtensions; back && !slices.ContainsFunc(waits, func(name *string) bool { return value(name) == after }) {
				sent.Properties.ProvisionAfterExtensions = append(waits, to.Ptr(after))
			}
		}
		all = append(all, sent)
	}
	return append(all, r.adds...)
}
