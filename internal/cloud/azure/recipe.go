package azure

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// bootstrapRemovedTag on a scale set is the version for which Kamino emptied customData. Azure never returns customData,
// so only the tag shows the removal.
const bootstrapRemovedTag = "kamino-bootstrap-removed"

// Kinds of parts of a recipe.
const (
	partCustomData = cloud.CustomData
	partExtension  = "extension"
)

// customData is the part that Azure never returns.
var customData = cloud.RecipeField{Kind: partCustomData, Unreadable: true, Note: "a node with customData has a copy in /var/lib/cloud/instance/user-data.txt"}

// partOf converts an extension to a part of the recipe.
func partOf(extension *armcompute.VirtualMachineScaleSetExtension) cloud.RecipeField {
	return cloud.RecipeField{Kind: partExtension, Name: value(extension.Name)}
}

// recipeOf converts the model to a recipe. Only ImageProvider knows the version of "latest".
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

// shortImage returns the end of an image ID after "galleries"; empty outside galleries.
func shortImage(image string) string {
	const galleries = "/galleries/"
	if i := strings.LastIndex(strings.ToLower(image), galleries); i >= 0 {
		return image[i+len(galleries):]
	}
	return ""
}

// sameRegion compares region names: "West US 2" equals "westus2".
func sameRegion(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, " ", ""), strings.ReplaceAll(b, " ", ""))
}

func imageReference(model armcompute.VirtualMachineScaleSet) *armcompute.ImageReference {
	if storage := profileOf(model).StorageProfile; storage != nil {
		return storage.ImageReference
	}
	return nil
}

// imageName returns an image reference as text: an ID, or publisher:offer:sku:version. Kamino's images are written in
// Kamino's case, because Azure varies the case.
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

// scriptExtensions are the extension types that run a script on each new VM. AKS Engine and Cluster API bootstrap nodes
// with such extensions.
var scriptExtensions = [][2]string{
	{"microsoft.azure.extensions", "customscript"},
	{"microsoft.ostcextensions", "customscriptforlinux"},
	{"microsoft.azure.containerupstream", "cluster-api-provider-azure"},
}

// isBootstrap reports whether an extension bootstraps a node. Extensions for billing, monitoring and security stay.
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

// backup is the content of RecipeChange.Backup: the removed parts, as far as Azure returns them.
type backup struct {
	Pool           cloud.PoolID                                  `json:"pool"`
	ImageReference *armcompute.ImageReference                    `json:"imageReference,omitempty"`
	Extensions     []*armcompute.VirtualMachineScaleSetExtension `json:"extensions,omitempty"`
	// Removes are the removed parts; empty if nothing was removed. Old backups lack the field.
	Removes []cloud.RecipeField `json:"removes"`
	// Waits are removed extensions that a remaining extension was provisioned after, by the remaining extension's name.
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
		part.Unreadable = !hasReadableCommand(extension)
		change.Removes = append(change.Removes, part)
		saved.Extensions = append(saved.Extensions, extension)
	}
	change.Done, change.Refusals = isVersion(image, r) && len(change.Removes) == 0, refusalsOfWrite(r.scaleSet, model)
	saved.Removes, saved.Waits = append([]cloud.RecipeField{}, change.Removes...), waitsFor(model, change.Removes)
	var err error
	if change.Backup, err = json.MarshalIndent(saved, "", "  "); err != nil {
		return cloud.RecipeChange{}, fail("save the recipe of", r.scaleSet, err)
	}
	return change, nil
}

// waitsFor returns remaining extensions that were provisioned after removed extensions, with the names of the removed
// extensions.
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

// hasReadableCommand reports whether a script extension has its command in the readable settings. Otherwise the command is
// in the protected settings, which Azure never returns.
func hasReadableCommand(extension *armcompute.VirtualMachineScaleSetExtension) bool {
	if extension.Properties == nil {
		return false
	}
	settings, _ := extension.Properties.Settings.(map[string]any)
	return settings["commandToExecute"] != nil || settings["script"] != nil
}

// isVersion reports whether an image reference names exactly this version and nothing else.
func isVersion(image *armcompute.ImageReference, r versionRef) bool {
	if image == nil || value(image.Publisher)+value(image.Offer)+value(image.SKU)+value(image.Version) != "" {
		return false
	}
	version, latest, ours := r.versionOf(value(image.ID))
	return ours && !latest && imageversion.Compare(version, r.version) == 0
}

// customDataEmptied trusts the tag only while the recipe names an image of Kamino. A client that set another image may
// have restored customData.
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
