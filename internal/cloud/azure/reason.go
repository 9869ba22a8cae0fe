package azure

import "github.com/kamino-dev/kamino/internal/cloud"

// galleryUnsuitable: gallery, image definition or disk encryption set do not fit the pool's images.
const galleryUnsuitable = "GalleryUnsuitable"

// refusalReasons are the reasons of this provider's refusals. docs/reference/refusals.md is generated from them.
var refusalReasons = []cloud.Reason{
	{
		Name: cloud.CustomDataUnusable, Means: "the given customData is larger than Azure's limit",
		Remedy: "pass the original customData of the pool, with gzip if the original was compressed",
	},
	{
		Name: cloud.DiskUnsupported, Means: "the disk of a confidential VM is bound to the VM's keys, and cannot become an image",
		Remedy: "leave the pool out",
	},
	{
		Name: cloud.DiskUnsupported, Means: "Azure Disk Encryption (`encryptionSettingsCollection`) binds the disk to the VM's keys",
		Remedy: "use a pool with encryption at host or a disk encryption set",
	},
	{
		Name: cloud.DiskUnsupported, Means: "the disk is on the host and cannot be copied",
		Remedy: "use a pool with managed OS disks",
	},
	{
		Name: cloud.DiskUnsupported, Means: "the disk is a blob, but only managed disks can be copied",
		Remedy: "use a pool with managed OS disks",
	},
	{
		Name: cloud.DonorProtected,
		Means: "a management lock on the instance, scale set, resource group or subscription prevents the deletion of a trial or a workshop; " +
			"checked only if the credential may list locks (`" + lockRead + "`)",
		Remedy: "remove the lock, or choose a pool without a lock",
	},
	{
		Name: galleryUnsuitable,
		Means: "the image definition has another generation, architecture, system or security type than the pool, and is immutable; " +
			"a Trusted Launch pool needs the type `TrustedLaunch`, because Azure refuses Trusted Launch disks for `TrustedLaunchSupported`",
		Remedy: "point the pool at another image, delete the definition and its versions, then try again",
	},
	{
		Name: galleryUnsuitable, Means: "an image version needs a disk encryption set of the same subscription and region",
		Remedy: "use a disk encryption set of the pool's subscription and region",
	},
	{
		Name: galleryUnsuitable, Means: "gallery names are unique in a subscription, and another resource group has the name",
		Remedy: "delete the other gallery",
	},
	{
		Name: galleryUnsuitable, Means: "a disk of generation 1 cannot make Trusted Launch VMs, which must be of generation 2",
		Remedy: "capture a newer node",
	},
	{
		Name: cloud.ManagedElsewhere, Means: "AKS owns the scale set's model, and reverts or ignores changes",
		Remedy: "use AKS node image upgrades or node pool snapshots instead",
	},
	{
		Name: cloud.ManagedElsewhere, Means: "Cluster API writes the model of a machine pool, and replaces running nodes after another client's write",
		Remedy: "leave the pool to Cluster API, or name the management cluster with `--management-kubeconfig`",
	},
	{
		Name: cloud.NodesWouldBeReplaced, Means: "automatic OS image upgrades are on: Azure would reimage running nodes",
		Remedy: "set `enableAutomaticOSUpgrade` to false",
	},
	{
		Name: cloud.NodesWouldBeReplaced,
		Means: "a rolling upgrade would give the new image to running nodes, or the credential may not read rolling upgrades; " +
			"found only at the write of a recipe",
		Remedy: "wait until the upgrade ends, or cancel the upgrade with `az vmss rolling-upgrade cancel`",
	},
	{
		Name: cloud.NodesWouldBeReplaced, Means: "a new image would replace all running nodes at once",
		Remedy: "set `upgradePolicy.mode` to Manual",
	},
	{
		Name: cloud.NodesWouldBeReplaced, Means: "a new image would replace the running nodes batch by batch",
		Remedy: "set `upgradePolicy.mode` to Manual",
	},
	{
		Name: cloud.NodesWouldBeReplaced, Means: "the mode is unknown or empty, and only Manual is certain to change no running node",
		Remedy: "set `upgradePolicy.mode` to Manual",
	},
	{
		Name: cloud.PermissionMissing, Means: "the credential lacks permissions; the message names the actions and the scope",
		Remedy: "assign a role with the actions at that scope: section Permissions. A new role assignment needs some minutes",
	},
	{
		Name: cloud.PoolUnsupported, Means: "only Uniform orchestration is supported",
		Remedy: "use a scale set with Uniform orchestration",
	},
	{
		Name:   string(cloud.QuotaExceeded),
		Means:  "the named quota has no room for a snapshot, definition or version, or for the machine of a trial or workshop",
		Remedy: "delete unused resources, or ask Azure for a larger quota",
	},
	{
		Name:   cloud.RootDiskTooLarge,
		Means:  "the donor's OS disk is larger than the OS disk in the scale set's model, so instances from the image could not be created",
		Remedy: "raise `osDisk.diskSizeGB` of the model, or capture a node with a smaller disk",
	},
	{
		Name: cloud.SystemUnsupported, Means: "only Linux disks can be generalized",
		Remedy: "leave the pool out",
	},
	{
		Name: "TrialInPoolOpen", Means: "an earlier version of Kamino left a trial in the pool, so that the recipe may name the tried version",
		Remedy: "restore the image that the tags `kamino-trying-before*` name, delete the trial's instances, and then remove the tag `kamino-trying`",
	},
	{
		Name: cloud.VersionExists, Means: "the pool already has a version of the same name",
		Remedy: "use another name, or delete the version",
	},
}
