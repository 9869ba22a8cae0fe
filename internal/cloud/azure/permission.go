package azure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// requiredActions are all that a whole capture does, in the pool's resource group.
// That a snapshot needs beginGetAccess on its disk is the word of the role "Disk Snapshot Contributor".
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

// recipeActions are those on the scale set and on how its instances stand to it.
var recipeActions = []string{
	"Microsoft.Compute/virtualMachineScaleSets/read",
	"Microsoft.Compute/virtualMachineScaleSets/write",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read",
}

// diskActions are those on instances, disks and images.
var diskActions = slices.DeleteFunc(slices.Clone(requiredActions), func(action string) bool {
	return action == recipeActions[0] || action == recipeActions[1] || action == recipeActions[3]
})

// vmActions are the same where instances stand by themselves.
var vmActions = func() (actions []string) {
	for _, action := range diskActions {
		if own := strings.Replace(action, "/virtualMachineScaleSets/virtualMachines/", "/virtualMachines/", 1); own != "Microsoft.Compute/virtualMachines/instanceView/read" {
			actions = append(actions, own)
		}
	}
	return actions
}()

// VMActions are the Azure actions that a credential needs in the resource group of VMs that stand by themselves, where their recipes are
// elsewhere.
func VMActions() []string { return slices.Clone(vmActions) }

// RequiredActions are the Azure actions that a credential needs in the resource group of its pools, for a
// role definition or a page of documentation.
func RequiredActions() []string { return append([]string(nil), requiredActions...) }

// grant is one role's permission: what it allows, without what it takes out again. Several add up: what one
// takes out, another may allow.
type grant struct {
	actions, notActions []string
}

func (g grant) allows(action string) bool {
	return matchesAny(g.actions, action) && !matchesAny(g.notActions, action)
}

func allowed(granted []grant, action string) bool {
	return slices.ContainsFunc(granted, func(g grant) bool { return g.allows(action) })
}

// missingActions are those that no grant allows.
func missingActions(granted []grant, actions []string) []string {
	return slices.DeleteFunc(slices.Clone(actions), func(action string) bool { return allowed(granted, action) })
}

// missing says which of the actions no grant allows; nil if none is missing.
func missing(s scaleSet, granted []grant, actions []string) *cloud.Refusal {
	lacks := missingActions(granted, actions)
	if len(lacks) == 0 {
		return nil
	}
	refusal := cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", strings.Join(lacks, ", "), s.scope()),
		"give it a role with these actions there (a new role assignment takes some minutes to count)")
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

// matches compares an action with a pattern in which "*" stands for any text, slashes included.
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

// listPermissions reads what the credential may do in a resource group.
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
