package azure

import "fmt"

// displayNames are Azure's names of regions in image versions and lists of regions; elsewhere Azure writes "westus2".
// Regions without a display name keep the configured name.
var displayNames = map[string]string{
	"australiaeast": "Australia East", "canadacentral": "Canada Central", "centralus": "Central US", "eastus": "East US",
	"eastus2": "East US 2", "francecentral": "France Central", "germanywestcentral": "Germany West Central",
	"northeurope": "North Europe", "southcentralus": "South Central US", "southeastasia": "Southeast Asia",
	"swedencentral": "Sweden Central", "switzerlandnorth": "Switzerland North", "uksouth": "UK South",
	"westeurope": "West Europe", "westus": "West US", "westus2": "West US 2", "westus3": "West US 3",
}

// displayLocation is a region's name for people.
func displayLocation(location string) string {
	if name := displayNames[normalLocation(location)]; name != "" {
		return name
	}
	return location
}

// creationData is the source of an instance's disk: a gallery version by its ID, or a platform image by its ID in the
// region.
func (s *backend) creationData(i *instance) object {
	data := object{"createOption": "FromImage"}
	if id := text(i.Image, "id"); id != "" {
		if i.Exact != "" {
			if parsed, known := parseID(id); known && len(parsed.names) == 2 {
				id += "/versions/" + i.Exact
			}
		}
		data["galleryImageReference"] = object{"id": id}
		return data
	}
	data["imageReference"] = object{"id": fmt.Sprintf(
		"/Subscriptions/%s/Providers/Microsoft.Compute/Locations/%s/Publishers/%s/ArtifactTypes/VMImage/Offers/%s/Skus/%s/Versions/%s",
		s.config.SubscriptionID, normalLocation(s.config.Location), text(i.Image, "publisher"), text(i.Image, "offer"), text(i.Image, "sku"), i.Exact)}
	return data
}
