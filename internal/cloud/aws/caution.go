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

// stackTag is the tag that CloudFormation writes on its resources. Source: CloudFormation, resource tags.
const stackTag = "aws:cloudformation:stack-name"

// cautions returns the warnings about a group. isVersion is true if the recipe names a version of the pool.
func (r recipe) cautions(ref group, own bool) []cloud.Refusal {
	var found []cloud.Refusal
	add := func(reason, obstacle, remedy string) {
		found = append(found, cloud.Refuse(reason, fmt.Sprintf("%s: %s", ref, obstacle), remedy))
	}
	if own && r.data != nil && !slices.ContainsFunc(r.data.BlockDeviceMappings, func(m ec2types.LaunchTemplateBlockDeviceMapping) bool {
		return m.Ebs != nil && sdk.ToInt32(m.Ebs.VolumeInitializationRate) > 0
	}) {
		add(cautionLazy, "nodes read disk blocks from S3 at first use; a large image cache on the disk can be slower than a pull",
			"compare node times with `kamino history`, and set settings.aws.volumeInitializationRate if startup is slow")
	}
	if days := sdk.ToInt32(r.group.MaxInstanceLifetime) / (24 * 60 * 60); days > 0 {
		add(cautionLifetime, fmt.Sprintf("AWS replaces instances after %d days, even during a capture", days), "no action is needed if captures rarely meet a replacement")
	}
	if at := slices.IndexFunc(r.group.Tags, func(t types.TagDescription) bool { return sdk.ToString(t.Key) == stackTag }); at >= 0 {
		add(cautionStack, fmt.Sprintf("CloudFormation stack %s created the group, and the next stack update may restore the old launch template", strings.TrimSpace(sdk.ToString(r.group.Tags[at].Value))),
			"remove the launch template version from the stack, or keep the current version in the stack")
	}
	return found
}
