package azure

import (
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// declared are actions of Azure with the same purpose.
type declared struct {
	// where and use are the place in the table of permissions, and feature is cloud.Permission.For.
	where, use, feature string
	on                  resource
	// actions are the names, separated by spaces.
	actions string
}

// resource is a set of what an action is on.
type resource int

const (
	// onPool: the scale set, or the protection of its instances.
	onPool resource = 1 << iota
	// onInstance: an instance of a scale set. onVM: a standalone VM.
	onInstance
	onVM
	// onImage: disks, snapshots and images.
	onImage
	// onOther: what is in any resource group, or what a preflight only tries to read.
	onOther
)

// Actions on resources that a new scale set refers to, in any resource group. Sources: Azure, "Azure built-in roles",
// Virtual Machine Contributor; "Permissions" of each joined resource.
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

// Scopes of actions outside of the pool's resource group.
const (
	ofPool    = "In the resource group of the scale set"
	ofVMs     = "In the resource group of standalone VMs, which Cluster API makes, instead of the actions on scale sets"
	ofJoined  = "On resources of the pool's instances, in any resource group, for trials and some writes of a scale set"
	ofRolling = "On a scale set with a rolling upgrade policy; most credentials do not need the action"
	ofReads   = "Optional reads: Kamino goes on without an answer"
)

// declarations are all actions of Kamino. The role, the page of permissions, the rights that the judge accepts, and the checks of
// doctor and preflight come from them. Source for beginGetAccess: the built-in role "Disk Snapshot Contributor".
var declarations = []declared{
	{ofPool, "pool and recipe: reading; promoting and growing", "", onPool,
		"Microsoft.Compute/virtualMachineScaleSets/read Microsoft.Compute/virtualMachineScaleSets/write"},
	{ofPool, "the donor: reading, protection from scale-in, power", "", onPool | onInstance,
		"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read " +
			"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read"},
	{ofPool, "the donor: reading, protection from scale-in, power", "", onPool, "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write"},
	{ofPool, "the donor: reading, protection from scale-in, power", "", onInstance,
		"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action " +
			"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/start/action"},
	{ofPool, "copying the disk", "", onImage,
		"Microsoft.Compute/disks/read Microsoft.Compute/disks/beginGetAccess/action Microsoft.Compute/snapshots/read " +
			"Microsoft.Compute/snapshots/write Microsoft.Compute/snapshots/delete"},
	{ofPool, "gallery and definition: reading, making them once", "", onImage,
		"Microsoft.Compute/galleries/read Microsoft.Compute/galleries/write Microsoft.Compute/galleries/images/read " +
			"Microsoft.Compute/galleries/images/write"},
	{ofPool, "versions: progress and history, publishing and tagging, retiring", "", onImage,
		"Microsoft.Compute/galleries/images/versions/read Microsoft.Compute/galleries/images/versions/write " +
			"Microsoft.Compute/galleries/images/versions/delete"},
	{ofPool, "`kamino rebuild`, `rollback --replace-nodes`, and policies with `rebuild`", forRebuild, onPool,
		"Microsoft.Compute/virtualMachineScaleSets/manualUpgrade/action " +
			"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/reimage/action"},
	{ofPool, "[donors that do not return](../concepts/donors.md). The action allows the deletion of every instance in its scope", cloud.ForRemoval, onPool,
		"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/delete"},
	{ofPool, "[trials](azure.md#a-trial). The action allows the deletion of every scale set in its scope", cloud.ForTrialApart, onPool,
		"Microsoft.Compute/virtualMachineScaleSets/delete"},
	{ofPool, "the serial console of a failed trial", cloud.ForConsole, onPool,
		"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action"},
	{ofVMs, "reading, stopping and starting a donor", "", onVM,
		"Microsoft.Compute/virtualMachines/read Microsoft.Compute/virtualMachines/powerOff/action " +
			"Microsoft.Compute/virtualMachines/start/action"},
	{ofVMs, "the serial console of a failed trial; the Machine needs boot diagnostics with managed storage, the default", cloud.ForConsole, onVM,
		"Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action"},
	{ofJoined, "subnets, security groups and identities", cloud.ForTrialApart, onOther, joinSubnet + " " + joinSecurity + " " + joinGroup + " " + assignIdentity},
	{ofJoined, "backend pools for egress", cloud.ForTrialApart, onOther, readBalancer + " " + joinBalancer},
	{ofReads, "missing actions", "", onOther, permissionRead},
	{ofReads, "locks", "", onOther, lockRead},
	{ofReads, "quotas of the subscription", "", onOther, "Microsoft.Compute/locations/usages/read"},
	{ofRolling, "whether a rolling upgrade runs, while Azure changes the scale set", "", onOther, rollingUpgradeRead},
}

// actionsFor returns the actions for a feature on some resources. The feature of captures is empty.
func actionsFor(feature string, on resource) (names []string) {
	for _, d := range declarations {
		if d.feature == feature && d.on&on != 0 {
			names = append(names, strings.Fields(d.actions)...)
		}
	}
	return names
}

var (
	recipeActions = actionsFor("", onPool)
	// diskActions are actions of a capture on instances, disks and images, and vmActions the same for standalone VMs.
	diskActions = actionsFor("", onInstance|onImage)
	vmActions   = actionsFor("", onVM|onImage)
)

// uses are the rows of the table of permissions.
func uses() (rows []cloud.Use) {
	for _, d := range declarations {
		rows = append(rows, cloud.Use{Where: d.where, For: d.use, Actions: strings.Fields(d.actions)})
	}
	return rows
}
