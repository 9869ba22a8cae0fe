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

// withoutProtected is the note on an extension that comes back as Azure gave it out.
const withoutProtected = "without protected settings, if it had any: Azure gives them out to nobody"

// maxCustomData is how many bytes Azure takes. Source: osProfile.customData in the API's reference.
const maxCustomData = 65535

// restoration is what a saved recipe gives back to a model, as it stands.
type restoration struct {
	scaleSet
	was backup
	// adds are the extensions that come back, with the protected settings that were given.
	adds []*armcompute.VirtualMachineScaleSetExtension
	// data is customData that comes back; nil if none does.
	data []byte
	// keepsImage: what was saved names a version of the pool's own, and going back to one is a rollback's.
	keepsImage bool
}

// RestoreChange implements cloud.RecipeRestorer.
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
	if err := r.read(saved.Backup); err != nil {
		return r, cloud.RecipeChange{}, err
	}
	now := imageReference(model)
	change := cloud.RecipeChange{Pool: s.pool(), From: s.imageName(now), Restores: &saved, Refusals: refusalsOfPolicy(s, model)}
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

// read reads a backup, and refuses one that is not of this scale set.
func (r *restoration) read(data []byte) error {
	invalid := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Invalid, Op: opRestore, Resource: r.String(), Message: fmt.Sprintf(format, args...)}
	}
	if err := json.Unmarshal(data, &r.was); err != nil || r.was.ImageReference == nil {
		return invalid("what was saved is no recipe of a scale set")
	}
	if of, err := parsePool(r.was.Pool); err != nil || of.pool() != r.pool() {
		return invalid("what was saved is of %s", r.was.Pool)
	}
	_, _, r.keepsImage = r.versionOf(value(r.was.ImageReference.ID))
	if r.was.Removes == nil { // saved before it was kept: customData went with the first image that was none of ours
		if !r.keepsImage {
			r.was.Removes = append(r.was.Removes, customData)
		}
		for _, extension := range r.was.Extensions {
			part := partOf(extension)
			part.Unreadable = !tellsItsCommand(extension)
			r.was.Removes = append(r.was.Removes, part)
		}
	}
	return nil
}

// customData comes back if it was lost and is given. Azure shows it to nobody: that it is back is told by the image
// that was restored with it, and by the tag that says it is gone.
func (r *restoration) customData(change *cloud.RecipeChange, saved cloud.Saved, back bool) {
	given, isGiven := saved.Given[customData.String()]
	if len(given) > maxCustomData {
		change.Refusals = append(change.Refusals, cloud.Refuse("CustomDataTooLarge",
			fmt.Sprintf("what is given as customData has %d bytes, and no scale set has more than %d", len(given), maxCustomData),
			"give what the pool was made with; where that was packed by gzip, pack it as well"))
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

// extensions come back that the scale set does not have. One of the name that somebody put there is left as it is.
func (r *restoration) extensions(change *cloud.RecipeChange, saved cloud.Saved) error {
	for _, extension := range r.was.Extensions {
		part := partOf(extension)
		if cloud.HasField(change.Keeps, part) {
			continue
		}
		given, isGiven := saved.Given[part.String()]
		if !isGiven && cloud.HasField(cloud.Unreadable(r.was.Removes), part) {
			part.Unreadable, part.Note = true, "its command stands in the protected settings, which Azure gives out to nobody"
			change.Missing = append(change.Missing, part)
			continue
		}
		sent := sendable(extension)
		part.Note, part.Unreadable = withoutProtected, true
		if isGiven {
			var settings map[string]any
			if err := json.Unmarshal(given, &settings); err != nil {
				return &cloud.Error{Kind: cloud.Invalid, Op: opRestore, Resource: r.String(),
					Message: fmt.Sprintf("the protected settings that are given for %s are no JSON object", part)}
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

// sendable is an extension as it may be sent: without its state. Azure keeps the protected settings of one that is
// there and is sent without them.
func sendable(extension *armcompute.VirtualMachineScaleSetExtension) *armcompute.VirtualMachineScaleSetExtension {
	sent := &armcompute.VirtualMachineScaleSetExtension{Name: extension.Name, Properties: &armcompute.VirtualMachineScaleSetExtensionProperties{}}
	if extension.Properties != nil {
		*sent.Properties = *extension.Properties
		sent.Properties.ProvisioningState = nil
		sent.Properties.ProvisionAfterExtensions = slices.Clone(extension.Properties.ProvisionAfterExtensions)
	}
	return sent
}

// restore is SetRecipe for a change of a RecipeRestorer. What it changes is looked for in the same read that the write is
// made from, so that nobody comes in between.
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
		case try > recipeTries:
			return conflict("Azure took the change %d times and does not show it: look for who changes it back", recipeTries)
		case try > 1:
		case !strings.EqualFold(now.From, change.From):
			return conflict("its image is %s, not %s as when the change was made: somebody else changed it", now.From, change.From)
		case !cloud.SameFields(now.Keeps, change.Keeps):
			return conflict("its extensions are others than when the change was made: somebody else changed them")
		}
		if err := p.write(ctx, opRestore, s, model, r.patch(model)); err != nil {
			return err
		}
	}
}

// patch is the merge patch that carries the restoration out. What is not of the image that comes back must be nulled,
// or the reference would name two.
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
		// All tags are sent, as with a promotion; an empty one is as good as none whether or not they are merged.
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

// all are the extensions that are there, waiting again for those that come back, and those that come back.
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
