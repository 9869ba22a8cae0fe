package azure

import "fmt"

// displayNames are the regions as Azure writes them in image versions and lists of regions, where it writes "westus2"
// elsewhere. A region that is not here is written as it was named.
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

// creationData says what an instance's disk was made from: a version of a gallery by its ID, an image of the platform by
// the ID that it has in its region.
func (s *world) creationData(i *instance) object {
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
