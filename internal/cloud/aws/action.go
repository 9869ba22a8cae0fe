package aws

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// declared are actions of IAM with the same purpose.
type declared struct {
	// use is the row in the table of permissions, sid the statement of the policy, and feature is cloud.Permission.For.
	use, sid, feature string
	ask               scope
	// byTags are the statements of the policy by tags, and actions the names, separated by spaces.
	byTags, actions string
}

// scope says which half of the provider asks IAM for an action, and for which resource.
type scope int

const (
	// askGroup: the pools' half asks for the ARN of the group.
	askGroup scope = iota
	// askPool, askDisk: the half of the pools or of the images asks, without a resource.
	askPool
	askDisk
	// askNone: a dry run or the question itself shows a missing permission.
	askNone
)

// Actions with a check of their own.
const (
	// updateAction sets the group's version of the launch template, and growAction its size.
	updateAction     = "autoscaling:UpdateAutoScalingGroup"
	growAction       = "autoscaling:SetDesiredCapacity"
	removeAction     = "autoscaling:TerminateInstanceInAutoScalingGroup"
	newVersionAction = "ec2:CreateLaunchTemplateVersion"
	launchAction     = "ec2:RunInstances"
	stopAction       = "ec2:StopInstances"
	startAction      = "ec2:StartInstances"
	copyAction       = "ec2:CreateSnapshot"
	registerAction   = "ec2:RegisterImage"
	// uefiAction reads the UEFI variables of an instance, for example the keys of Secure Boot. RegisterImage does not copy them.
	uefiAction     = "ec2:GetInstanceUefiData"
	passAction     = "iam:PassRole"
	simulateAction = "iam:SimulatePrincipalPolicy"
)

// dryRunActions are the actions of a capture on EC2 that a preflight can try with dry runs.
var dryRunActions = []string{newVersionAction, launchAction, stopAction, startAction, copyAction, registerAction}

const (
	forRebuild = "rebuilding nodes"
	// look is the statement of reads, removeDonors of --remove-donors.
	look, removeDonors = "Look", "RemoveDonors"
)

// declarations are all actions of Kamino. Both policies, the page of permissions, the rights that the judge accepts, and the
// checks of doctor and preflight come from them.
var declarations = []declared{
	{"reading pools, nodes and recipes", look, "", askPool, look, "autoscaling:DescribeAutoScalingGroups autoscaling:DescribeAutoScalingInstances " +
		"autoscaling:DescribeInstanceRefreshes ec2:DescribeLaunchTemplateVersions"},
	{"reading pools, nodes and recipes", look, "", askDisk, look, "ec2:DescribeInstances ec2:DescribeInstanceAttribute ec2:DescribeVolumes"},
	{"reading snapshots, images, and UEFI variables (Secure Boot keys)", look, "", askDisk, look, "ec2:DescribeSnapshots ec2:DescribeImages " + uefiAction},
	{"holding and returning the donor", "Capture", "", askGroup, "TaggedPools",
		"autoscaling:EnterStandby autoscaling:ExitStandby autoscaling:SetInstanceProtection"},
	{"holding and returning the donor", "Capture", "", askDisk, "TaggedPools", stopAction + " " + startAction},
	{"making, tagging and deleting snapshots and images", "Capture", "", askDisk, "CopyDisks NewSnapshots", copyAction},
	{"making, tagging and deleting snapshots and images", "Capture", "", askDisk, "NewImages", registerAction},
	{"making, tagging and deleting snapshots and images", "Capture", "", askDisk, "OwnSnapshots", "ec2:DeleteSnapshot"},
	{"making, tagging and deleting snapshots and images", "Capture", "", askDisk, "OwnImages", "ec2:DeregisterImage ec2:DeleteTags"},
	{"making, tagging and deleting snapshots and images", "Capture", "", askDisk, "TagNewResources OwnSnapshots OwnImages OwnTrials", "ec2:CreateTags"},
	{"promoting, and trials", "Capture", "", askGroup, "TaggedPools", updateAction},
	{"promoting, and trials", "Capture", "", askPool, "TaggedPools", newVersionAction},
	{"promoting, and trials", "Capture", "", askPool, "LaunchByGroupAndTrial", launchAction},
	{"promoting, and trials: on the role of the nodes", "PassTheNodesRole", "", askNone, "PassTheNodesRole", passAction},
	{"growing: before a donor that does not return, and by `newNodes`", "GrowGroups", cloud.ForRemoval, askGroup, "TaggedPools", growAction},
	{"removing a donor that does not return", removeDonors, cloud.ForRemoval, askGroup, "TaggedPools", removeAction},
	{"a trial next to the pool", "TryVersions", cloud.ForTrialApart, askPool, "OwnTrials", "ec2:TerminateInstances"},
	{"the serial console of a failed trial", "TryVersions", cloud.ForConsole, askPool, look, "ec2:GetConsoleOutput"},
	// Not verified on AWS, permissions: the replacement of a root volume asks for the action on instance, task, volume and image.
	{"rebuilding nodes: `rebuild`, `rollback --replace-nodes`", "RebuildNodes", forRebuild, askPool, "TaggedPools NewRootVolumes",
		"ec2:CreateReplaceRootVolumeTask"},
	{"the progress of a rebuild", look, forRebuild, askPool, look, "ec2:DescribeReplaceRootVolumeTasks"},
	{"reading the permissions of Kamino's own role", "SeeOwnPermissions", "", askNone, "SeeOwnPermissions", "iam:GetRole " + simulateAction},
}

// need is a required permission.
type need struct {
	action string
	declared
}

var needs = func() (all []need) {
	for _, d := range declarations {
		for _, action := range strings.Fields(d.actions) {
			all = append(all, need{action, d})
		}
	}
	return all
}()

// needsWhere returns the needs with a property.
func needsWhere(is func(need) bool) []need {
	return slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return !is(n) })
}

// uses are the rows of the table of permissions.
func uses() (rows []cloud.Use) {
	for _, d := range declarations {
		rows = append(rows, cloud.Use{For: d.use, Actions: strings.Fields(d.actions)})
	}
	return rows
}
