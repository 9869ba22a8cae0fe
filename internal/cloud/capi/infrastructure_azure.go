package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// azure describes the kinds of Cluster API's provider for Azure. Source: CAPZ v1.20 and later, api/v1beta1.
var azure = infrastructure{
	cloud:   "azure",
	machine: "AzureMachine",
	cluster: "AzureCluster",
	root:    "image",
	image:   azureImage,

	instanceType: "vmSize",
	ended: func(status spec) bool {
		return slices.Contains([]string{"Deleting", "Deleted"}, status.text("vmState"))
	},
	setImage: setAzureImage,
	place: func(c spec) (place, location string) {
		if subscription, group := c.text("subscriptionID"), c.text("resourceGroup"); subscription != "" && group != "" {
			place = "/subscriptions/" + strings.ToLower(subscription) + "/resourceGroups/" + strings.ToLower(group)
		}
		return place, c.text("location")
	},
	rootDisk: []string{"osDisk", "diskSizeGB"},
	traits:   azureTraits,
	refusals: azureRefusals,
}

// galleryParts are the segments of a version's resource ID with the fields of computeGallery. A segment without a field
// is constant.
var galleryParts = []struct{ word, field string }{
	{"subscriptions", "subscriptionID"}, {"resourceGroups", "resourceGroup"}, {"providers", ""}, {"galleries", "gallery"}, {"images", "name"},
	{"versions", "version"},
}

const computeProvider = "Microsoft.Compute"

// Words of images outside galleries of a subscription: community is the first part of a community image, and plan is the
// last part of a marketplace image with a purchase plan.
const (
	communityWord = "community"
	planWord      = "plan"
)

// azureImage returns the image as Azure writes the image: the ID of a version or image, or publisher:offer:sku:version.
func azureImage(m spec) string {
	gallery := func(field string) string { return m.text("image", "computeGallery", field) }
	switch {
	case m.has("image", "computeGallery") && gallery("subscriptionID") == "":
		return strings.Join([]string{communityWord, gallery("gallery"), gallery("name"), gallery("version")}, ":")
	case m.has("image", "computeGallery"):
		var id strings.Builder
		for _, part := range galleryParts {
			value := computeProvider
			if part.field != "" {
				value = gallery(part.field)
			}
			id.WriteString("/" + part.word + "/" + value)
		}
		return id.String()
	case m.has("image", "marketplace"):
		var parts []string
		for _, field := range marketplaceParts {
			parts = append(parts, m.text("image", "marketplace", field))
		}
		if planned, _, _ := unstructured.NestedBool(m, "image", "marketplace", "thirdPartyImage"); planned {
			parts = append(parts, planWord)
		}
		return strings.Join(parts, ":")
	}
	return m.text("image", "id")
}

var marketplaceParts = []string{"publisher", "offer", "sku", "version"}

// setAzureImage sets an image in the form of azureImage.
func setAzureImage(m spec, image string) error {
	parts := strings.Split(image, ":")
	community := len(parts) == len(marketplaceParts) && parts[0] == communityWord
	planned := len(parts) == len(marketplaceParts)+1 && parts[len(marketplaceParts)] == planWord
	named := map[string]any{}
	switch {
	case slices.Contains(parts, ""):
		return noImage(image)
	case community:
		named["computeGallery"] = map[string]any{"gallery": parts[1], "name": parts[2], "version": parts[3]}
	case planned || len(parts) == len(marketplaceParts):
		offered := map[string]any{}
		for i, field := range marketplaceParts {
			offered[field] = parts[i]
		}
		if planned {
			offered["thirdPartyImage"] = true
		}
		named["marketplace"] = offered
	case !strings.HasPrefix(image, "/"):
		return noImage(image)
	case strings.Contains(strings.ToLower(image), "/galleries/"):
		segments := strings.Split(strings.Trim(image, "/"), "/")
		gallery := map[string]any{}
		for i, part := range galleryParts {
			if len(segments) != 2*len(galleryParts) || !strings.EqualFold(segments[2*i], part.word) || segments[2*i+1] == "" {
				return noImage(image)
			}
			if part.field != "" {
				gallery[part.field] = segments[2*i+1]
			}
		}
		named["computeGallery"] = gallery
	default:
		named["id"] = image
	}
	m["image"] = named
	return nil
}

func noImage(text string) error {
	return &cloud.Error{Kind: cloud.Invalid, Op: "name", Resource: text,
		Message: "not the ID of a gallery version or an image, and not a marketplace image: use an ID or publisher:offer:sku:version"}
}

// azureTraits returns the traits of package azure (Trait constants) from an AzureMachine's spec.
func azureTraits(m spec) map[string]string {
	traits := map[string]string{"securityType": "Standard"}
	if security := m.text("securityProfile", "securityType"); security != "" {
		traits["securityType"], traits["generation"] = security, "V2"
	}
	for trait, path := range map[string][]string{
		"vmSize": {"vmSize"}, "diskEncryptionSet": {"osDisk", "managedDisk", "diskEncryptionSet", "id"},
	} {
		if value := m.text(path...); value != "" {
			traits[trait] = value
		}
	}
	return traits
}

func azureRefusals(m spec, of fmt.Stringer) []cloud.Refusal {
	found := refuse(m.has("osDisk", "diffDiskSettings"), nil, cloud.DiskUnsupported, "use a pool with managed OS disks",
		"%s asks for ephemeral OS disks, which are on the host and cannot be copied", of)
	found = refuse(strings.EqualFold(m.text("osDisk", "osType"), "Windows"), found, cloud.SystemUnsupported, "leave the pool out",
		"%s asks for Windows; only Linux nodes can be captured", of)
	found = refuse(m.text("securityProfile", "securityType") == "ConfidentialVM", found, cloud.DiskUnsupported, "leave the pool out",
		"%s asks for confidential VMs; a confidential disk is bound to a single VM and cannot become an image", of)
	return refuse(m.has("spotVMOptions"), found, cloud.StopTerminates, "capture a node of an on-demand pool",
		"%s asks for spot VMs; Azure may evict a stopped spot VM", of)
}
