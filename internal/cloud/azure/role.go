package azure

import (
	"encoding/json"
	"slices"
)

// role is the least that a credential needs in the resource group of its pools, as the document of a custom role, which
// `az role definition create` takes. What stands in capitals in it is the subscription's.
func role(removal bool) ([]byte, error) {
	actions := slices.Concat(RequiredActions(), TrialActions(), RebuildActions())
	if removal {
		actions = append(actions, RemoveActions()...)
	}
	slices.Sort(actions)
	return json.MarshalIndent(struct {
		Name, Description string
		IsCustom          bool
		Actions           []string
		AssignableScopes  []string
	}{
		"Kamino", "Captures nodes of scale sets, and points them at the images made of these.", true, slices.Compact(actions),
		[]string{"/subscriptions/SUBSCRIPTION/resourceGroups/RESOURCE-GROUP"},
	}, "", "  ")
}
