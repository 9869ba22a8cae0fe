package azure

import (
	"encoding/json"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// role returns the smallest custom role for the resource group of the pools, as input for `az role definition create`.
// Replace the words in capitals.
func role(removal bool) ([]byte, error) {
	granted := uses.Actions(func(u cloud.Use) bool { return u.Where == "" && (removal || u.Feature != cloud.ForRemoval) })
	slices.Sort(granted)
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
