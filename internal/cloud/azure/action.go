package azure

import (
	_ "embed"

	"github.com/kamino-dev/kamino/internal/cloud"
)

//go:embed actions.yaml
var actionsFile []byte

var uses = cloud.ReadUses(actionsFile)

// Actions on resources that a new scale set refers to, in any resource group.
const (
	joinSubnet     = "Microsoft.Network/virtualNetworks/subnets/join/action"
	joinSecurity   = "Microsoft.Network/networkSecurityGroups/join/action"
	joinBalancer   = "Microsoft.Network/loadBalancers/backendAddressPools/join/action"
	joinGroup      = "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action"
	assignIdentity = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
	readBalancer   = "Microsoft.Network/loadBalancers/read"
)

// Reads that a preflight tries.
const (
	rollingUpgradeRead = "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read"
	permissionRead     = "Microsoft.Authorization/permissions/read"
	lockRead           = "Microsoft.Authorization/locks/read"
)

// actionsFor returns the actions for a feature on kinds of resources. The feature of captures is empty.
func actionsFor(feature string, on ...string) []string {
	return uses.Actions(func(u cloud.Use) bool { return u.Feature == feature && u.IsOf(on...) })
}

var (
	recipeActions = actionsFor("", "pool")
	// inPlaceActions are all actions that only captures in place need.
	inPlaceActions = actionsFor(cloud.ForInPlace, "pool", "instance", "vm")
)

// diskActions returns the actions for a feature on instances, disks and images. Standalone VMs are outside of a scale set.
func diskActions(feature string, standalone bool) []string {
	if standalone {
		return actionsFor(feature, "vm", "image")
	}
	return actionsFor(feature, "instance", "image")
}
