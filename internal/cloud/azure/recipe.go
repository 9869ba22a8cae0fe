package azure

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// bootstrapRemovedTag stands on a scale set whose customData we emptied, with the version that it was
// emptied for: Azure never gives customData out, so that it cannot be seen in any other way.
const bootstrapRemovedTag = "kamino-bootstrap-removed"

// Kinds of a recipe's parts.
const (
	partCustomData = cloud.CustomData
	partExtension  = "extension"
)

// customData is the part that Azure never gives out.
var customData = cloud.RecipeField{Kind: partCustomData, Unreadable: true, Note: "a node that was built with it keeps it in /var/lib/cloud/instance/user-data.txt"}

// partOf is an extension as a part of the recipe.
func partOf(extension *armcompute.VirtualMachineScaleSetExtension) cloud.RecipeField {
	return cloud.RecipeField{Kind: partExtension, Name: value(extension.Name)}
}

// recipeOf reads what the pool's next node is built from. The ImageProvider knows the meaning of "latest".
func recipeOf(s scaleSet, model armcompute.VirtualMachineScaleSet) cloud.Recipe {
	image := imageReference(model)
	out := cloud.Recipe{Image: s.imageName(image)}
	out.Short = shortImage(out.Image)
	for _, extension := range extensionsOf(model) {
		if isBootstrap(extension) {
			out.Bootstrap = append(out.Bootstrap, partOf(extension).String())
		}
	}
	if image != nil {
		out.Version, out.Latest, _ = s.versionOf(value(image.ID))
	}
	return out
}

// shortImage is what follows the galleries of an image's ID; empty for an image of no gallery.
func shortImage(image string) string {
	const galleries = "/galleries/"
	if i := strings.LastIndex(strings.ToLower(image), galleries); i >= 0 {
		return image[i+len(galleries):]
	}
	return ""
}

// sameRegion compares "West US 2" and "westus2".
func sameRegion(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, " ", ""), strings.ReplaceAll(b, " ", ""))
}

func imageReference(model armcompute.VirtualMachineScaleSet) *armcompute.ImageReference {
	if storage := profileOf(model).StorageProfile; storage != nil {
		return storage.ImageReference
	}
	return nil
}

// imageName is an image reference in one line: an ID, or publisher:offer:sku:version. One of our own is
// written as we write it, so that it compares as text whatever case Azure returns.
func (s scaleSet) imageName(image *armcompute.ImageReference) string {
	if image == nil {
		return ""
	}
	switch version, latest, ours := s.versionOf(value(image.ID)); {
	case ours && latest:
		return s.definitionID()
	case ours:
		return s.versionID(version)
	}
	for _, id := range []*string{image.ID, image.SharedGalleryImageID, image.CommunityGalleryImageID} {
		if value(id) != "" {
			return *id
		}
	}
	if value(image.Publisher) == "" {
		return ""
	}
	return strings.Join([]string{value(image.Publisher), value(image.Offer), value(image.SKU), value(image.Version)}, ":")
}

func extensionsOf(model armcompute.VirtualMachineScaleSet) []*armcompute.VirtualMachineScaleSetExtension {
	profile := profileOf(model).ExtensionProfile
	if profile == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(profile.Extensions), func(e *armcompute.VirtualMachineScaleSetExtension) bool { return e == nil })
}

// scriptExtensions are the kinds of extension that run a script on each new VM: how AKS Engine and Cluster
// API bootstrap their nodes.
var scriptExtensions = [][2]string{
	{"microsoft.azure.extensions", "customscript"},
	{"microsoft.ostcextensions", "customscriptforlinux"},
	{"microsoft.azure.containerupstream", "cluster-api-provider-azure"},
}

// isBootstrap tells whether an extension makes a generic image into a node. Extensions for billing,
// monitoring and security are other kinds, and stay.
func isBootstrap(extension *armcompute.VirtualMachineScaleSetExtension) bool {
	name := strings.ToLower(value(extension.Name))
	if strings.Contains(name, "billing") {
		return false
	}
	if name == "vmsscse" || strings.HasPrefix(name, "cse") {
		return true
	}
	if extension.Properties == nil {
		return false
	}
	publisher, kind := strings.ToLower(value(extension.Properties.Publisher)), strings.ToLower(value(extension.Properties.Type))
	return slices.ContainsFunc(scriptExtensions, func(known [2]string) bool {
		return publisher == known[0] && (kind == known[1] || strings.HasPrefix(kind, known[1]))
	})
}

// backup is what RecipeChange.Backup holds: what the recipe loses, as far as Azure gives it out.
type backup struct {
	Pool           cloud.PoolID                                  `json:"pool"`
	ImageReference *armcompute.ImageReference                    `json:"imageReference,omitempty"`
	Extensions     []*armcompute.VirtualMachineScaleSetExtension `json:"extensions,omitempty"`
	// Removes names what was lost, and is empty where nothing was. Recipes that were saved before do not have it.
	Removes []cloud.RecipeField `json:"removes"`
	// Waits are, by the name of an extension that stayed, the lost ones that it was provisioned after.
	Waits map[string][]string `json:"waits,omitempty"`
}

// RecipeChange implements cloud.PoolProvider.
func (p *PoolProvider) RecipeChange(ctx context.Context, to cloud.Target, removeBootstrap bool) (cloud.RecipeChange, error) {
	r, err := versionOfPool(to.Pool, to.Version)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	model, err := p.model(ctx, r.scaleSet)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	return recipeChange(r, model, removeBootstrap)
}

func recipeChange(r versionRef, model armcompute.VirtualMachineScaleSet, removeBootstrap bool) (cloud.RecipeChange, error) {
	image := imageReference(model)
	change := cloud.RecipeChange{Pool: r.pool(), Version: r.version, From: r.imageName(image), To: r.id()}
	saved := backup{Pool: r.pool(), ImageReference: image}
	if removeBootstrap && !customDataEmptied(r.scaleSet, model) {
		change.Removes = append(change.Removes, customData)
	}
	for _, extension := range extensionsOf(model) {
		part := partOf(extension)
		if !removeBootstrap || !isBootstrap(extension) {
			change.Keeps = append(change.Keeps, part)
			continue
		}
		part.Unreadable = !tellsItsCommand(extension)
		change.Removes = append(change.Removes, part)
		saved.Extensions = append(saved.Extensions, extension)
	}
	change.Done, change.Refusals = isVersion(image, r) && len(change.Removes) == 0, refusalsOfPolicy(r.scaleSet, model)
	saved.Removes, saved.Waits = append([]cloud.RecipeField{}, change.Removes...), waitsFor(model, change.Removes)
	var err error
	if change.Backup, err = json.MarshalIndent(saved, "", "  "); err != nil {
		return cloud.RecipeChange{}, fail("save the recipe of", r.scaleSet, err)
	}
	return change, nil
}

// waitsFor are the extensions that stay and were provisioned after one that goes, each with those that it loses.
func waitsFor(model armcompute.VirtualMachineScaleSet, removes []cloud.RecipeField) map[string][]string {
	var waits map[string][]string
	for _, extension := range extensionsOf(model) {
		if cloud.HasField(removes, partOf(extension)) || extension.Properties == nil {
			continue
		}
		for _, after := range extension.Properties.ProvisionAfterExtensions {
			if !cloud.HasField(removes, cloud.RecipeField{Kind: partExtension, Name: value(after)}) {
				continue
			}
			if waits == nil {
				waits = map[string][]string{}
			}
			waits[value(extension.Name)] = append(waits[value(extension.Name)], value(after))
		}
	}
	return waits
}

// tellsItsCommand tells whether a script extension has its command among the settings that Azure gives out;
// otherwise it is among the protected ones, which Azure never does.
func tellsItsCommand(extension *armcompute.VirtualMachineScaleSetExtension) bool {
	if extension.Properties == nil {
		return false
	}
	settings, _ := extension.Properties.Settings.(map[string]any)
	return settings["commandToExecute"] != nil || settings["script"] != nil
}

// isVersion tells whether an image reference names exactly this version, and nothing beside it.
func isVersion(image *armcompute.ImageReference, r versionRef) bool {
	if image == nil || value(image.Publisher)+value(image.Offer)+value(image.SKU)+value(image.Version) != "" {
		return false
	}
	version, latest, ours := r.versionOf(value(image.ID))
	return ours && !latest && imageversion.Compare(version, r.version) == 0
}

// customDataEmptied believes the tag only while the recipe names one of our images: whoever pointed it at
// another one may have put customData back with it.
func customDataEmptied(s scaleSet, model armcompute.VirtualMachineScaleSet) bool {
	image := imageReference(model)
	if image == nil {
		return false
	}
	_, _, ours := s.versionOf(value(image.ID))
	return ours && hasTag(model.Tags, bootstrapRemovedTag)
}

func hasTag(tags map[string]*string, name string) bool {
	for have, text := range tags {
		if strings.EqualFold(have, name) && value(text) != "" {
			return true
		}
	}
	return false
}
