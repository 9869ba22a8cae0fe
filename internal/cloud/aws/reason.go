package aws

import "github.com/kamino-dev/kamino/internal/cloud"

// refusalReasons are those that this provider refuses for. docs/aws.md has the same table.
var refusalReasons = []cloud.Reason{
	{
		Name: reasonMinimum, Means: "the donor leaves the service of its group for a while, and the group may have no instance fewer",
		Remedy: "lower its minimum size, or grow it by one",
	},
	{
		Name: reasonDeleted, Means: "the group is being deleted",
		Remedy: "leave it out",
	},
	{
		Name: reasonCAPA, Means: "Cluster API writes the group's launch template",
		Remedy: "leave this pool to Cluster API, or name its management cluster with `--management-kubeconfig`",
	},
	{
		Name: reasonEKS, Means: "the group is that of a managed node group: EKS owns its launch template, and replaces nodes at each change",
		Remedy: "use a self-managed node group",
	},
	{
		Name: reasonParameter, Means: "the launch template takes the image from a parameter, or names none",
		Remedy: "name the image's ID in the launch template",
	},
	{
		Name: reasonRefresh, Means: "an instance refresh is at work on the group, and would give the new image to nodes that run",
		Remedy: "wait for its end, or cancel it with `aws autoscaling cancel-instance-refresh`",
	},
	{
		Name: "InstanceStoreRoot", Means: "the root disk goes when the instance stops, and cannot be copied",
		Remedy: "use an image whose root is an EBS volume",
	},
	{
		Name: reasonKops, Means: "kOps writes the launch template: a version is made and tried, and [handed over](#kops)",
		Remedy: "set the image with `kops edit instancegroup`, as the message says",
	},
	{
		Name: reasonConfiguration, Means: "a launch configuration cannot be changed",
		Remedy: "give the group a launch template",
	},
	{
		Name: "MarketplaceImage", Means: "an image that is registered from the disk of a Marketplace product would lose the product's code",
		Remedy: "use an image without a product code",
	},
	{
		Name: reasonOperator, Means: "AWS lets only the service that manages the group, or its launch template, change it",
		Remedy: "use a group of your own",
	},
	{
		Name: reasonOverride, Means: "the mixed instances policy names another image, or another launch template, for some of its instances, which would stay as they are",
		Remedy: "use one launch template for all of them",
	},
	{
		Name: cloud.PermissionMissing, Means: "the credential lacks actions; each is named, with what it is for",
		Remedy: "allow them in its IAM policy: section Permissions",
	},
	{
		Name: "ShutdownTerminates", Means: "powering off would terminate the donor",
		Remedy: "set the shutdown behavior of the instance, and of its launch template, to stop",
	},
	{
		Name: reasonSnapshot, Means: "the launch template makes a disk from a snapshot, which a new version of it does not inherit",
		Remedy: "take the snapshot out of its block device mappings",
	},
	{
		Name: "SpotInstance", Means: "AWS may end a spot instance while it is stopped, or refuse to start it again",
		Remedy: "capture a node of an on-demand instance",
	},
	{
		Name: "StopProtected", Means: "the donor is protected from being stopped",
		Remedy: "switch its stop protection off, or capture another node",
	},
	{
		Name: reasonNoTemplate, Means: "the version of the launch template that the group names is not there, so that the group cannot grow at all",
		Remedy: "point the group at a version that is",
	},
	{
		Name: reasonUserData, Means: "the profile takes what makes a node out of the recipe, since the disk carries it; the user data of a launch template always stays, and would run again",
		Remedy: "use the profile `bootstrap` or `eks`, or join nodes without user data",
	},
	{
		Name: "VersionExists", Means: "the pool has a version of that name",
		Remedy: "name another one of that day, or delete it",
	},
	{
		Name: reasonWarmPool, Means: "the next nodes come from the warm pool, and were built from the image before",
		Remedy: "remove the warm pool",
	},
	{
		Name: "Windows", Means: "only Linux disks can be generalized",
		Remedy: "leave the pool out",
	},
}
