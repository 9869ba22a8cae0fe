package azure

import (
	"encoding/json"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// role returns the smallest custom role for the resource group of the pools, with or without captures in place, as input for `az role
// definition create`. Users replace the words in capitals.
func role(powers ...string) ([]byte, error) {
	granted := uses.Granted(powers...).Actions(func(u cloud.Use) bool { return u.Where == "" })
	slices.Sort(granted)
	granted = slices.Compact(granted) // an action can have several purposes
	return json.MarshalIndent(struct {
		Name, Description string
		IsCustom          bool
		Actions           []string
		AssignableScopes  []string
	}{
		"Kamino", "Captures nodes of scale sets, and sets the images of scale sets.", true, granted,
		[]string{"/subscriptions/SUBSCRIPTION/resourceGroups/RESOURCE-GROUP"},
	}, "", "  ")
}
