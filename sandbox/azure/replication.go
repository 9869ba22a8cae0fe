package azure

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// sourceOf is the snapshot, disk or version that an image version is made from, and how many were given.
func sourceOf(body object) (string, int) {
	storage := child(body, "properties", "storageProfile")
	var given []string
	for _, id := range []string{text(storage, "osDiskImage", "source", "id"), text(storage, "source", "id"), text(storage, "source", "virtualMachineId")} {
		if id != "" {
			given = append(given, id)
		}
	}
	if len(given) == 0 {
		return "", 0
	}
	return given[0], len(given)
}

// check refuses impossible versions, without a look at other resources.
func (s versions) check(c *call, body object) *problem {
	source, given := sourceOf(body)
	switch {
	case given == 0:
		return invalid("galleryImageVersion.properties.storageProfile",
			"Required parameter 'galleryImageVersion.properties.storageProfile.source' is missing (null).")
	case given > 1:
		return invalid("galleryImageVersion.properties.storageProfile",
			"Only one of 'storageProfile.source' and 'storageProfile.osDiskImage.source' may be given.")
	}
	if id, ok := parseID(source); ok && id.is("snapshots") {
		if p := s.permissions.authorizeLinked(c, "Microsoft.Compute/snapshots/read", source); p != nil {
			return p
		}
	}
	profile := child(body, "properties", "publishingProfile")
	here := false
	for _, r := range list(profile, "targetRegions") {
		region, _ := r.(object)
		here = here || normalLocation(text(region, "name")) == normalLocation(s.config.Location)
		if p := s.checkStorage(text(region, "storageAccountType")); p != nil {
			return p
		}
	}
	if !here {
		return invalid("galleryImageVersion.properties.publishingProfile.targetRegions",
			"The gallery image version publishing profile must contain the source region '%s' among its target regions.", s.config.Location)
	}
	if n, ok := number(profile, "replicaCount"); !ok || n < 1 || n > 100 {
		return invalid("galleryImageVersion.properties.publishingProfile.replicaCount", "The replica count must be between 1 and 100.")
	}
	return s.checkStorage(text(profile, "storageAccountType"))
}

// checkStorage refuses a kind of storage, where the region refuses it at once.
func (s versions) checkStorage(kind string) *problem {
	switch kind {
	case "", "Standard_LRS", "Premium_LRS":
		return nil
	case "Standard_ZRS":
		if !s.config.ZRS && s.config.ZRSRefusedAtOnce {
			return invalid("galleryImageVersion.properties.publishingProfile.storageAccountType", "ZRS storage account type is not supported in this region.")
		}
		return nil
	default:
		return invalid("galleryImageVersion.properties.publishingProfile.storageAccountType",
			"The value '%s' of parameter 'storageAccountType' is invalid.", kind)
	}
}

// checkSource compares the source with the definition.
func (s versions) checkSource(st *state, id resourceID, body object) *problem {
	source, _ := sourceOf(body)
	src := st.resourceAt(source)
	if src == nil || src.State == stateDeleting {
		return refuse(http.StatusNotFound, "ResourceNotFound",
			"The resource '%s' could not be found: it is the source of the gallery image version '%s'.", source, id.name())
	}
	if src.State != stateSucceeded {
		return conflict("Conflict", "The source '%s' of the gallery image version is in provisioning state '%s'; it must be Succeeded.", source, src.State)
	}
	definition := st.Definitions[id.parent().key()]
	for _, property := range []string{"hyperVGeneration", "osType"} {
		have, want := text(src.Body, "properties", property), text(definition.Body, "properties", property)
		if have != "" && want != "" && !strings.EqualFold(have, want) {
			return invalid("galleryImageVersion.properties.storageProfile",
				"The property '%s' of the source '%s' is '%s' and does not match the gallery image's '%s'.", property, source, have, want)
		}
	}
	feature := featureOf(definition.Body, "SecurityType")
	if text(src.Body, "properties", "securityProfile", "securityType") == "TrustedLaunch" && feature != "TrustedLaunch" {
		return invalid("galleryImageVersion.properties.storageProfile",
			"The source '%s' has security type 'TrustedLaunch', which is supported in a gallery image of security type 'TrustedLaunch' only, not '%s'.",
			source, feature)
	}
	return nil
}

// wantsZRS reports whether a copy must be zone-redundant.
func wantsZRS(body object) bool {
	profile := child(body, "properties", "publishingProfile")
	for _, r := range list(profile, "targetRegions") {
		if region, ok := r.(object); ok && text(region, "storageAccountType") == "Standard_ZRS" {
			return true
		}
	}
	return text(profile, "storageAccountType") == "Standard_ZRS"
}

// zrsAfter is how long Azure takes to find that there is no zone-redundant storage.
const zrsAfter = 20 * time.Second

// make copies the source's content at once and lets the replication take its time.
func (s versions) make(ctx context.Context, op operation) (func(*state), error) {
	var body object
	s.store.Read(func(st *state) { body = st.Versions[fold(op.Target)].Body })
	if wantsZRS(body) && !s.config.ZRS {
		if err := s.until(op.Began.Add(s.config.Clock.Real(zrsAfter))); err != nil {
			return nil, err
		}
		return nil, &problem{Code: "ReplicationJobsNotCompleted", Message: "The replication job has not completed at " + s.config.Location +
			" due to the following error: code:StorageAccountTypeNotSupported; detail:ZRS is not supported in this region."}
	}
	source, _ := sourceOf(body)
	err := s.contents.copyOnce(ctx, op, source)
	if err != nil {
		return nil, err
	}
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	inRegion := time.Now().Add(s.config.Clock.Real(s.config.Latencies.Replicate))
	return func(st *state) {
		written(st, op, nil)
		if v := st.Versions[fold(op.Target)]; v != nil {
			v.InRegion = inRegion
		}
	}, nil
}
