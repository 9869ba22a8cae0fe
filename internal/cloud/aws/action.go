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
	// updateAction sets the group's version of the launch template.
	updateAction     = "autoscaling:UpdateAutoScalingGroup"
	newVersionAction = "ec2:CreateLaunchTemplateVersion"
	launchAction     = "ec2:RunInstances"
	stopAction       = "ec2:StopInstances"
	startAction      = "ec2:StartInstances"
	attributeAction  = "ec2:DescribeInstanceAttribute"
	copyAction       = "ec2:CreateSnapshot"
	typesAction      = "ec2:DescribeInstanceTypes"
	registerAction   = "ec2:RegisterImage"
	// uefiAction reads the UEFI variables of an instance, for example the keys of Secure Boot. RegisterImage does not copy them.
	uefiAction     = "ec2:GetInstanceUefiData"
	passAction     = "iam:PassRole"
	simulateAction = "iam:SimulatePrincipalPolicy"
)

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
