package aws

import "github.com/kamino-dev/kamino/internal/cloud"

// refusalReasons are the reasons of this provider's refusals. docs/reference/refusals.md is generated from them.
var refusalReasons = []cloud.Reason{
	{
		Name: reasonMinimum, Means: "the donor must leave service during the capture, but the group is at the minimum size",
		Remedy: "lower the minimum size, or grow the group by one",
	},
	{
		Name: cloud.DiskUnsupported, Means: "AWS deletes the root disk when the instance stops, and cannot copy the disk",
		Remedy: "use an image whose root is an EBS volume",
	},
	{
		Name: cloud.DiskUnsupported, Means: "the donor's disk has product codes of the AWS Marketplace, and EC2 attaches no copy of it to a running workshop",
		Remedy: "capture the node in place, if it can return",
	},
	{
		Name: cloud.DonorProtected, Means: "the donor is protected from being stopped",
		Remedy: "disable stop protection, or capture another node",
	},
	{
		Name: reasonKops, Means: "kOps writes the launch template: Kamino makes and tries a version, then [hands the version over](#kops)",
		Remedy: "set the image with `kops edit instancegroup`, as the message says",
	},
	{
		Name: cloud.ManagedElsewhere, Means: "Cluster API writes the group's launch template",
		Remedy: "leave the pool to Cluster API, or name the management cluster with `--management-kubeconfig`",
	},
	{
		Name: cloud.ManagedElsewhere, Means: "the group belongs to a managed node group: EKS owns the launch template, and replaces nodes at every change",
		Remedy: "use a self-managed node group",
	},
	{
		Name: cloud.ManagedElsewhere, Means: "only the AWS service that manages the group or the launch template may change the group",
		Remedy: "use a group of your own",
	},
	{
		Name: cloud.NodesWouldBeReplaced, Means: "an instance refresh is running, and would give the new image to running nodes",
		Remedy: "wait until the refresh ends, or cancel the refresh with `aws autoscaling cancel-instance-refresh`",
	},
	{
		Name: cloud.PermissionMissing, Means: "the credential lacks permissions; the message names the actions and the purpose",
		Remedy: "allow the actions in the IAM policy: section Permissions",
	},
	{
		Name: cloud.PoolBeingDeleted, Means: "the group is being deleted",
		Remedy: "leave the pool out",
	},
	{
		Name: cloud.PoolNotCopyable, Means: "the launch template selects instance types by attributes, and a trial cannot launch such a template",
		Remedy: "move the requirements to the overrides of the mixed instances policy, or set `settings.trial.mode` to Off",
	},
	{
		Name: cloud.PoolNotCopyable, Means: "the instance type of the workshop runs on Xen, where Kamino cannot find the copy of the disk",
		Remedy: "set `settings.donor.workshopType` to a type on Nitro of the same architecture, or capture the node in place, if it can return",
	},
	{
		Name: cloud.PoolUnsupported, Means: "the group counts its capacity in weights, vCPUs or memory, but Kamino counts instances",
		Remedy: "count the capacity in instances: remove the weights, and set the desired capacity type to units",
	},
	{
		Name:   cloud.RootDiskTooLarge,
		Means:  "the donor's root disk is larger than the root volume in the launch template, so nodes from the image could not start",
		Remedy: "raise the volume size in the launch template, or capture a node with a smaller disk",
	},
	{
		Name: cloud.StopTerminates, Means: "powering off would terminate the donor",
		Remedy: "set the shutdown behavior of the instance and the launch template to stop",
	},
	{
		Name: cloud.StopTerminates, Means: "AWS may terminate a stopped spot instance, or refuse to start the instance again",
		Remedy: "capture a node of an on-demand instance",
	},
	{
		Name: cloud.SystemUnsupported, Means: "only Linux disks can be generalized",
		Remedy: "leave the pool out",
	},
	{
		Name: reasonNoTemplate, Means: "the group names a launch template version that does not exist, so the group cannot grow",
		Remedy: "point the group at an existing version",
	},
	{
		Name: cloud.TemplateUnsuitable, Means: "the launch template reads the image from a parameter, or names no image",
		Remedy: "name the image's ID in the launch template",
	},
	{
		Name: cloud.TemplateUnsuitable, Means: "the donor's image maps further disks, which Kamino's image would lack",
		Remedy: "map the disks in the launch template with their sizes, or with NoDevice",
	},
	{
		Name: cloud.TemplateUnsuitable, Means: "a launch configuration cannot be changed",
		Remedy: "give the group a launch template",
	},
	{
		Name:   cloud.TemplateUnsuitable,
		Means:  "the mixed instances policy overrides image or launch template for some instances, which would keep the old image",
		Remedy: "use a single launch template for all instances",
	},
	{
		Name: cloud.TemplateUnsuitable, Means: "the launch template makes a disk from a snapshot, and a new template version would lose the snapshot",
		Remedy: "remove the snapshot from the block device mappings",
	},
	{
		Name: cloud.TemplateUnsuitable, Means: "other groups use the launch template at `$Latest`, and would launch nodes from the image of this group",
		Remedy: "point the other groups at a version number, or give the group a launch template of its own",
	},
	{
		Name: cloud.TemplateUnsuitable,
		Means: "the profile removes the bootstrap from the recipe, because the image contains the result; " +
			"user data of a launch template stays, and would run again",
		Remedy: "use the profile `bootstrap` or `eks`, or join nodes without user data",
	},
	{
		Name: cloud.VersionExists, Means: "the pool already has a version of the same name",
		Remedy: "use another name, or delete the version",
	},
}
