package azure

import "github.com/kamino-dev/kamino/internal/cloud"

// refusalReasons are those that this provider refuses for. docs/azure.md has the same table.
var refusalReasons = []cloud.Reason{
	{
		Name: "AKSManaged", Means: "AKS owns the scale set's model, and undoes or ignores a change of it",
		Remedy: "use AKS node image upgrades or node pool snapshots instead",
	},
	{
		Name: "AutomaticOSUpgrade", Means: "automatic OS image upgrades are on: Azure would reimage running nodes",
		Remedy: "set `enableAutomaticOSUpgrade` to false",
	},
	{
		Name: "CAPZManaged", Means: "Cluster API writes the model of its machine pools, and replaces running nodes where somebody else wrote it",
		Remedy: "leave this pool to Cluster API, or name its management cluster with `--management-kubeconfig`",
	},
	{
		Name: "ConfidentialVM", Means: "the disks of confidential VMs are bound to the keys of one VM each, and cannot become an image for others",
		Remedy: "leave the pool out",
	},
	{
		Name: "CustomDataTooLarge", Means: "a copy of customData is given that is larger than any scale set's",
		Remedy: "give what the pool was made with; where that was packed by gzip, pack it as well",
	},
	{
		Name: "DefinitionMismatch", Means: "the image definition is of another generation, architecture, system or security type than the pool, and cannot be changed; a Trusted Launch pool needs one of type `TrustedLaunch`, for Azure refuses such a disk for `TrustedLaunchSupported`",
		Remedy: "point the pool at another image, delete the definition and its versions, then try again",
	},
	{
		Name: "DiskEncryptedInGuest", Means: "Azure Disk Encryption (`encryptionSettingsCollection`) binds the disk to its VM's keys",
		Remedy: "use a pool with encryption at host or a disk encryption set",
	},
	{
		Name: "DiskEncryptionSetElsewhere", Means: "an image version can only be encrypted with a disk encryption set of its own subscription and region",
		Remedy: "use a disk encryption set of the pool's subscription and region",
	},
	{
		Name: "EphemeralOSDisk", Means: "the disk lives on the host and cannot be copied",
		Remedy: "use a pool with managed OS disks",
	},
	{
		Name: "FlexibleOrchestration", Means: "only Uniform orchestration is supported",
		Remedy: "use a scale set with Uniform orchestration",
	},
	{
		Name: "GalleryNameTaken", Means: "gallery names are unique in a subscription, and another resource group has this one",
		Remedy: "rename or delete the other one",
	},
	{
		Name: "GenerationMismatch", Means: "a disk of generation 1 cannot make Trusted Launch VMs, which must be of generation 2",
		Remedy: "capture a newer node",
	},
	{
		Name: "InstanceLocked", Means: "a management lock on the instance, its scale set, resource group or subscription keeps a donor that does not return, or what a trial has made, from being deleted; looked for where the credential may list locks (`Microsoft.Authorization/locks/read`)",
		Remedy: "remove the lock, or choose a pool without one",
	},
	{
		Name: cloud.PermissionMissing, Means: "the credential lacks actions; each is named, with where",
		Remedy: "give it a role with these actions there: section Permissions. A new role assignment takes some minutes to count",
	},
	{
		Name: "QuotaUsedUp", Means: "no further snapshot, definition or version fits into the quota that is named, or no node more where the pool grows before its donor is taken, or a version is tried",
		Remedy: "delete what is not needed, or ask Azure for more",
	},
	{
		Name: rollingUpgradeRuns, Means: "a rolling upgrade would give the new image to nodes that run, or nobody may look whether one does; found with the write of a recipe or a size only",
		Remedy: "wait until it is over, or end it with `az vmss rolling-upgrade cancel`",
	},
	{
		Name: "UnmanagedOSDisk", Means: "the disk is a blob, and only managed disks can be copied",
		Remedy: "use a pool with managed OS disks",
	},
	{
		Name: "UpgradePolicyAutomatic", Means: "a new image would replace all running nodes at once",
		Remedy: "set `upgradePolicy.mode` to Manual",
	},
	{
		Name: "UpgradePolicyRolling", Means: "a new image would replace the running nodes batch by batch",
		Remedy: "set `upgradePolicy.mode` to Manual",
	},
	{
		Name: "UpgradePolicyUnknown", Means: "Azure names another mode or none, and only with Manual it is certain that no running node changes",
		Remedy: "set `upgradePolicy.mode` to Manual",
	},
	{
		Name: "VersionExists", Means: "the pool has a version of that name",
		Remedy: "name another one of that day, or delete it",
	},
	{
		Name: "Windows", Means: "only Linux disks can be generalized",
		Remedy: "leave the pool out",
	},
}
