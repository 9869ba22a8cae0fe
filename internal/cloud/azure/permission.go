package azure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// requiredActions are the actions of a capture in the pool's resource group. Source for beginGetAccess: the built-in role
// "Disk Snapshot Contributor".
var requiredActions = []string{
	"Microsoft.Compute/virtualMachineScaleSets/read",
	"Microsoft.Compute/virtualMachineScaleSets/write",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/start/action",
	"Microsoft.Compute/disks/read",
	"Microsoft.Compute/disks/beginGetAccess/action",
	"Microsoft.Compute/snapshots/read",
	"Microsoft.Compute/snapshots/write",
	"Microsoft.Compute/snapshots/delete",
	"Microsoft.Compute/galleries/read",
	"Microsoft.Compute/galleries/write",
	"Microsoft.Compute/galleries/images/read",
	"Microsoft.Compute/galleries/images/write",
	"Microsoft.Compute/galleries/images/versions/read",
	"Microsoft.Compute/galleries/images/versions/write",
	"Microsoft.Compute/galleries/images/versions/delete",
}

// recipeActions are actions on the scale set and on the protection of its instances.
var recipeActions = []string{
	"Microsoft.Compute/virtualMachineScaleSets/read",
	"Microsoft.Compute/virtualMachineScaleSets/write",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read",
}

// diskActions are actions on instances, disks and images.
var diskActions = slices.DeleteFunc(slices.Clone(requiredActions), func(action string) bool {
	return action == recipeActions[0] || action == recipeActions[1] || action == recipeActions[3]
})

// vmActions are diskActions for standalone VMs.
var vmActions = func() (actions []string) {
	for _, action := range diskActions {
		if own := strings.Replace(action, "/virtualMachineScaleSets/virtualMachines/", "/virtualMachines/", 1); own != "Microsoft.Compute/virtualMachines/instanceView/read" {
			actions = append(actions, own)
		}
	}
	return actions
}()

// VMActions returns the required actions in the resource group of standalone VMs, for pools of another PoolProvider.
func VMActions() []string { return slices.Clone(vmActions) }

// RequiredActions returns the required actions in the resource group of the pools, for a role definition or
// documentation.
func RequiredActions() []string { return append([]string(nil), requiredActions...) }

// grant holds the actions of a role assignment. Grants add up: a grant's notActions do not limit another grant.
type grant struct {
	actions, notActions []string
}

func (g grant) allows(action string) bool {
	return matchesAny(g.actions, action) && !matchesAny(g.notActions, action)
}

func allowed(granted []grant, action string) bool {
	return slices.ContainsFunc(granted, func(g grant) bool { return g.allows(action) })
}

// missingActions returns the actions that no grant allows.
func missingActions(granted []grant, actions []string) []string {
	return slices.DeleteFunc(slices.Clone(actions), func(action string) bool { return allowed(granted, action) })
}

// missing returns the refusal for actions that no grant allows; nil if all actions are allowed.
func missing(s scaleSet, granted []grant, actions []string) *cloud.Refusal {
	lacks := missingActions(granted, actions)
	if len(lacks) == 0 {
		return nil
	}
	refusal := cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", strings.Join(lacks, ", "), s.scope()),
		"assign a role with the actions at that scope (a new role assignment needs some minutes)")
	return &refusal
}

func matchesAny(patterns []string, action string) bool {
	for _, pattern := range patterns {
		if matches(strings.ToLower(pattern), strings.ToLower(action)) {
			return true
		}
	}
	return false
}

// matches reports whether an action matches a pattern. "*" matches any text, including slashes.
func matches(pattern, action string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == action
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(action, first) {
		return false
	}
	rest := action[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return len(rest) >= len(last) && strings.HasSuffix(rest, last)
}

// listPermissions reads the credential's permissions in a resource group.
func listPermissions(ctx context.Context, client *armauthorization.PermissionsClient, group string) ([]grant, error) {
	var out []grant
	pager := client.NewListForResourceGroupPager(group, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, permission := range page.Value {
			if permission != nil {
				out = append(out, grant{actions: texts(permission.Actions), notActions: texts(permission.NotActions)})
			}
		}
	}
	return out, nil
}

func texts(pointers []*string) []string {
	out := make([]string, 0, len(pointers))
	for _, pointer := range pointers {
		out = append(out, value(pointer))
	}
	return out
}
