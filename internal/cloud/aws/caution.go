package aws

import (
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of cautions.
const (
	cautionLazy     = "VolumesLoadLazily"
	cautionLifetime = "MaxInstanceLifetime"
	cautionStack    = "StackOwnsGroup"
)

// stackTag is what CloudFormation writes on what it makes. Source: CloudFormation, resource tags.
const stackTag = "aws:cloudformation:stack-name"

// cautions are what is to be known of a group. own tells that its recipe names a version of its own.
func (r recipe) cautions(ref group, own bool) []cloud.Refusal {
	var found []cloud.Refusal
	add := func(reason, obstacle, remedy string) {
		found = append(found, cloud.Refuse(reason, fmt.Sprintf("%s: %s", ref, obstacle), remedy))
	}
	if own && r.data != nil && !slices.ContainsFunc(r.data.BlockDeviceMappings, func(m ec2types.LaunchTemplateBlockDeviceMapping) bool {
		return m.Ebs != nil && sdk.ToInt32(m.Ebs.VolumeInitializationRate) > 0
	}) {
		add(cautionLazy, "its nodes read each block of their disk from S3 when they first use it, so that a large image cache on it can be slower than a pull",
			"compare the nodes' times with kamino history, and set settings.aws.volumeInitializationRate if that pays")
	}
	if days := sdk.ToInt32(r.group.MaxInstanceLifetime) / (24 * 60 * 60); days > 0 {
		add(cautionLifetime, fmt.Sprintf("AWS replaces its instances after %d days, one that is captured then, too", days), "nothing, if captures are seldom that near")
	}
	if at := slices.IndexFunc(r.group.Tags, func(t types.TagDescription) bool { return sdk.ToString(t.Key) == stackTag }); at >= 0 {
		add(cautionStack, fmt.Sprintf("stack %s of CloudFormation has made it, whose next update may take its launch template back", strings.TrimSpace(sdk.ToString(r.group.Tags[at].Value))),
			"leave the template's version out of the stack, or have it take what is there")
	}
	return found
}
