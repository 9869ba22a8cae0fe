package azure

import (
	_ "embed"
	"slices"
	"strings"

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

// forRebuild is the value of Permission.For for EnsureRebuilt.
const forRebuild = "kamino rollback --replace-nodes"

// actionsFor returns the actions for a feature on kinds of resources. The feature of captures is empty.
func actionsFor(feature string, on ...string) []string {
	return uses.Actions(func(u cloud.Use) bool { return u.Feature == feature && u.IsOf(on...) })
}

var (
	recipeActions = actionsFor("", "pool")
	// diskActions are actions of a capture on instances, disks and images, and vmActions the same for standalone VMs.
	diskActions = actionsFor("", "instance", "image")
	vmActions   = actionsFor("", "vm", "image")
	// diskCopyActions and vmCopyActions are further actions of a capture by copy.
	diskCopyActions = actionsFor(cloud.ForCopy, "instance", "image")
	vmCopyActions   = actionsFor(cloud.ForCopy, "vm", "image")
)

// withoutPower leaves out the actions that stop and start a donor. A donor whose disk is copied in use stays on.
func withoutPower(actions []string) []string {
	return slices.DeleteFunc(slices.Clone(actions), func(action string) bool {
		return strings.HasSuffix(action, "/powerOff/action") || strings.HasSuffix(action, "/start/action")
	})
}
