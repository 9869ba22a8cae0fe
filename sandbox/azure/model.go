package azure

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// writeOnly are the parts of a profile's osProfile that a GET omits.
var writeOnly = []string{"customData", "adminPassword"}

// withoutSecrets is a profile for a GET.
func withoutSecrets(profile object) object {
	out := copyObject(profile)
	if os := child(out, "osProfile"); os != nil {
		for _, k := range writeOnly {
			delete(os, k)
		}
	}
	for _, e := range extensionsOf(out) {
		delete(child(e, "properties"), "protectedSettings")
	}
	delete(out, "userData")
	return out
}

// extensionsOf are the profile's inline extensions.
func extensionsOf(profile object) []object {
	var out []object
	for _, e := range list(profile, "extensionProfile", "extensions") {
		if o, isObject := e.(object); isObject {
			out = append(out, o)
		}
	}
	return out
}

// keepOmitted adds the old values of omitted properties to the body of a PUT. Write-only properties stay, because
// clients cannot read them. The image stays, because the az command omits the image in all changes.
func keepOmitted(set *scaleSet, body object) object {
	next := copyObject(body)
	old := set.profile()
	for _, k := range []string{"sku", "zones"} {
		if next[k] == nil && set.Body[k] != nil {
			next[k] = copyOf(set.Body[k])
		}
	}
	for _, k := range []string{"upgradePolicy", "orchestrationMode"} {
		if at(next, "properties", k) == nil {
			put(next, copyOf(at(set.Body, "properties", k)), "properties", k)
		}
	}
	profile := child(next, "properties", "virtualMachineProfile")
	if profile == nil {
		put(next, copyObject(old), "properties", "virtualMachineProfile")
		return next
	}
	for _, path := range [][]string{
		{"osProfile"}, {"storageProfile"}, {"networkProfile"}, {"storageProfile", "imageReference"}, {"storageProfile", "osDisk"},
		{"storageProfile", "osDisk", "osType"}, {"osProfile", "computerNamePrefix"}, {"osProfile", "adminUsername"},
	} {
		if at(profile, path...) == nil && at(old, path...) != nil {
			put(profile, copyOf(at(old, path...)), path...)
		}
	}
	for _, k := range writeOnly {
		if v := at(old, "osProfile", k); v != nil && at(profile, "osProfile", k) == nil {
			put(profile, v, "osProfile", k)
		}
	}
	keepProtected(old, profile)
	return next
}

// keepProtected restores the protected settings of existing extensions.
func keepProtected(old, profile object) {
	before := map[string]any{}
	for _, e := range extensionsOf(old) {
		before[fold(text(e, "name"))] = at(e, "properties", "protectedSettings")
	}
	for _, e := range extensionsOf(profile) {
		if v := before[fold(text(e, "name"))]; v != nil && at(e, "properties", "protectedSettings") == nil {
			put(e, v, "properties", "protectedSettings")
		}
	}
}

// maxInstances is Azure's limit for a scale set. A light one, made for scale tests, may be larger.
const maxInstances = 1000

// models are the models of scale sets.
type models struct{ *backend }

// check refuses a model that Azure would not take; more is how many instances are to be added.
func (s models) check(st *state, body, profile object, more int64) *problem {
	if mode := text(body, "properties", "orchestrationMode"); !strings.EqualFold(mode, "Uniform") {
		return invalid("orchestrationMode", "The sandbox simulates orchestration mode Uniform; '%s' is not available.", mode)
	}
	capacity, whole := number(body, "sku", "capacity")
	if !whole || capacity < 0 || text(body, "sku", "name") == "" {
		return invalid("sku", "Required parameter 'sku' with 'name' and 'capacity' is missing or invalid.")
	}
	if mode := text(body, "properties", "upgradePolicy", "mode"); mode != "Manual" && mode != "Automatic" && mode != "Rolling" {
		return invalid("upgradePolicy.mode", "Required parameter 'upgradePolicy.mode' is missing or invalid: '%s'.", mode)
	}
	data := text(profile, "osProfile", "customData")
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || len(data) > 87380 {
		return invalid("customData", "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.")
	}
	names := map[string]bool{}
	for _, e := range extensionsOf(profile) {
		name := fold(text(e, "name"))
		if name == "" || names[name] {
			return invalid("extensionProfile", "Extension names must be given and unique within the scale set: '%s'.", text(e, "name"))
		}
		names[name] = true
	}
	if _, p := s.resolve(st, profile); p != nil {
		return p
	}
	size := text(body, "sku", "name")
	if p := s.withinQuota(st, "cores", more*coresOf(size)); p != nil {
		return p
	}
	return s.withinQuota(st, familyOf(size), more*coresOf(size))
}

// image is the image of an instance.
type image struct {
	// source is the content: a version's ID, or a platform image as "publisher:offer:sku:version".
	source string
	// exact is the resolved version, reference the text in the model.
	exact      string
	reference  object
	generation string
}

// resolve finds the current image of a profile.
func (s models) resolve(st *state, profile object) (image, *problem) {
	ref := child(profile, "storageProfile", "imageReference")
	img := image{reference: ref}
	id := text(ref, "id")
	if id == "" {
		for _, k := range []string{"publisher", "offer", "sku", "version"} {
			if text(ref, k) == "" {
				return img, invalid("imageReference", "Required parameter 'imageReference.%s' is missing (null).", k)
			}
		}
		img.source = strings.Join([]string{text(ref, "publisher"), text(ref, "offer"), text(ref, "sku"), text(ref, "version")}, ":")
		img.exact, img.generation = text(ref, "version"), platformGeneration(text(ref, "sku"))
		return img, securityFits(profile, img.generation, nil)
	}
	for _, k := range []string{"publisher", "offer", "sku", "version"} {
		if text(ref, k) != "" {
			return img, invalid("imageReference", "Parameter 'imageReference.id' is not allowed together with 'imageReference.%s'.", k)
		}
	}
	v, definition := s.galleryImage(st, id)
	if v == nil {
		return img, refuse(http.StatusNotFound, "GalleryImageNotFound", "The gallery image %s is not available in %s region. "+
			"Please contact image owner to replicate to this region, or change your requested region.", id, s.config.Location)
	}
	img.source, img.exact = v.ID, v.id().name()
	img.generation = text(definition.Body, "properties", "hyperVGeneration")
	return img, securityFits(profile, img.generation, definition)
}

// platformGeneration is the Hyper-V generation of a marketplace image: publishers put it into the SKU.
func platformGeneration(sku string) string {
	if sku = fold(sku); strings.Contains(sku, "gen2") || strings.HasSuffix(sku, "-g2") {
		return "V2"
	}
	return "V1"
}

// galleryImage finds the version of a reference: the named version, or the highest version that is not excluded from
// latest.
func (s models) galleryImage(st *state, reference string) (*version, *resource) {
	id, valid := parseID(reference)
	if !valid {
		return nil, nil
	}
	if id.is("galleries/images/versions") && !strings.EqualFold(id.name(), "latest") {
		v := st.Versions[id.key()]
		if v == nil || !usable(v) {
			return nil, nil
		}
		return v, st.Definitions[id.parent().key()]
	}
	if id.is("galleries/images/versions") {
		id = id.parent()
	}
	var best *version
	for key, v := range st.Versions {
		if !strings.HasPrefix(key, id.key()+"/versions/") || !usable(v) || truth(v.Body, "properties", "publishingProfile", "excludeFromLatest") {
			continue
		}
		if best == nil || compareVersions(v.id().name(), best.id().name()) > 0 {
			best = v
		}
	}
	return best, st.Definitions[id.key()]
}

// usable reports whether instances can use a version.
func usable(v *version) bool {
	return (v.State == stateSucceeded || v.State == stateUpdating) && !time.Now().Before(v.InRegion)
}

// featureOf is the value of a gallery image's feature; empty if not set.
func featureOf(definition object, name string) string {
	for _, f := range list(definition, "properties", "features") {
		if o, isObject := f.(object); isObject && text(o, "name") == name {
			return text(o, "value")
		}
	}
	return ""
}

// securityFits compares the profile's security type with the image's features.
func securityFits(profile object, generation string, definition *resource) *problem {
	want := text(profile, "securityProfile", "securityType")
	feature := ""
	if definition != nil {
		feature = featureOf(definition.Body, "SecurityType")
	}
	switch {
	case want == "":
		return needsSecurity(feature)
	case generation != "V2":
		return badRequest("BadRequest", "Use of %s setting is not supported for the provided image. Please select a %s supported Gen2 OS Image.", want, want)
	case definition != nil && !strings.Contains(feature, strings.TrimSuffix(want, "VM")):
		return badRequest("BadRequest", "Use of %s setting is not supported for the provided image: the gallery image '%s' has security type '%s'.",
			want, definition.id().name(), feature)
	}
	return nil
}

// needsSecurity refuses an image that needs another security type.
func needsSecurity(feature string) *problem {
	if feature == "TrustedLaunch" || feature == "ConfidentialVM" {
		return badRequest("BadRequest", "The provided gallery image only supports creation of VMs and VM Scale Sets with '%s' security type.", feature)
	}
	return nil
}
