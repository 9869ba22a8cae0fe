package aws

import (
	_ "embed"

	"github.com/kamino-dev/kamino/internal/cloud"
)

//go:embed actions.yaml
var actionsFile []byte

var uses = cloud.ReadUses(actionsFile)

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
	typesAction      = "ec2:DescribeInstanceTypes"
	registerAction   = "ec2:RegisterImage"
	// uefiAction reads the UEFI variables of an instance, for example the keys of Secure Boot. RegisterImage does not copy them.
	uefiAction     = "ec2:GetInstanceUefiData"
	passAction     = "iam:PassRole"
	simulateAction = "iam:SimulatePrincipalPolicy"
)

// holdActions hold a donor that is stopped, and return it. A donor whose disk is copied in use is not held.
var holdActions = []string{"autoscaling:EnterStandby", "autoscaling:ExitStandby", "autoscaling:SetInstanceProtection"}

// dryRunActions are the actions of a capture on EC2 that a preflight can try with dry runs.
var dryRunActions = []string{newVersionAction, launchAction, stopAction, startAction, copyAction, registerAction}

// need is a required permission.
type need struct {
	cloud.Use
	action string
}

// needsWhere returns the needs with a property.
func needsWhere(is func(need) bool) (needs []need) {
	for _, u := range uses {
		for _, action := range u.Actions {
			if n := (need{u, action}); is(n) {
				needs = append(needs, n)
			}
		}
	}
	return needs
}
