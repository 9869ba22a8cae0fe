package azure

import (
	"encoding/json"
	"slices"
)

// role returns the smallest custom role for the resource group of the pools, as input for `az role definition create`.
// Replace the words in capitals.
func role(removal bool) ([]byte, error) {
	actions := slices.Concat(RequiredActions(), TrialActions(), ConsoleActions(), RebuildActions())
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
		"Kamino", "Captures nodes of scale sets, and sets the images of scale sets.", true, slices.Compact(actions),
		[]string{"/subscriptions/SUBSCRIPTION/resourceGroups/RESOURCE-GROUP"},
	}, "", "  ")
}
