package aws

import (
	"fmt"
	"maps"
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
	cautionZones    = "ZonesMayBeRebalanced"
	cautionFull     = "GroupAtMaximum"
	cautionWarm     = "WarmPool"
	cautionRolling  = "KopsRollsNodes"
	cautionUpdate   = "KopsUpdatePending"
)

// rebalanceProcess is the process that balances the zones of a group. Source: "Suspend and resume Amazon EC2 Auto Scaling
// processes".
const rebalanceProcess = "AZRebalance"

// fullestZone returns the zone with most instances in service, and the counts. Both are empty if no other zone has a possible
// donor, or if the group does not balance its zones. Zones may differ by one instance.
func fullestZone(g types.AutoScalingGroup) (zone, counts string) {
	if slices.ContainsFunc(g.SuspendedProcesses, func(p types.SuspendedProcess) bool { return sdk.ToString(p.ProcessName) == rebalanceProcess }) {
		return "", ""
	}
	n := map[string]int{}
	for _, name := range g.AvailabilityZones {
		n[name] = 0
	}
	for _, m := range g.Instances {
		if !inStandby(string(m.LifecycleState)) {
			n[sdk.ToString(m.AvailabilityZone)]++
		}
	}
	names := slices.Sorted(maps.Keys(n))
	var parts []string
	for _, name := range names {
		if zone == "" || n[name] > n[zone] {
			zone = name
		}
		parts = append(parts, fmt.Sprintf("%s: %d", name, n[name]))
	}
	if !slices.ContainsFunc(names, func(name string) bool { return n[name] > 0 && n[name] < n[zone] }) {
		return "", ""
	}
	return zone, strings.Join(parts, ", ")
}

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
		add(cautionLifetime, fmt.Sprintf("AWS replaces instances after %d days, even during a capture", days),
			"no action is needed if captures rarely meet a replacement")
	}
	if zone, counts := fullestZone(r.group); zone != "" {
		add(cautionZones,
			fmt.Sprintf("zones have different numbers of nodes (%s); a donor from a smaller zone can make AWS rebalance the zones, "+
				"and terminate a node without a drain", counts),
			fmt.Sprintf("capture a node of zone %s as policies do, "+
				"or run `aws autoscaling suspend-processes --auto-scaling-group-name %s --scaling-processes AZRebalance`", zone, ref.name))
	}
	if most := sdk.ToInt32(r.group.MaxSize); most > 0 && sdk.ToInt32(r.group.DesiredCapacity) >= most {
		add(cautionFull,
			fmt.Sprintf("the group is at its maximum size of %d; if an autoscaler fills the donor's place during a capture, the donor cannot return", most),
			"raise the maximum size by one")
	}
	if at := slices.IndexFunc(r.group.Tags, func(t types.TagDescription) bool { return sdk.ToString(t.Key) == stackTag }); at >= 0 {
		add(cautionStack, fmt.Sprintf("CloudFormation stack %s created the group, and the next stack update may restore the old launch template",
			strings.TrimSpace(sdk.ToString(r.group.Tags[at].Value))),
			"remove the launch template version from the stack, or keep the current version in the stack")
	}
	found = append(found, r.kopsCautions(ref)...)
	if sign := r.terraformSign(); sign != "" {
		add(cloud.TerraformManaged, sign+"; the next apply can name the group's old template version again, and replace all nodes",
			"in Terraform, ignore changes of image_id in the launch template, and name the template's latest_version in the group: see "+docs+"#terraform")
	}
	return found
}

// terraformSign is why Terraform seems to manage the group; empty without a sign. The module terraform-aws-eks names the
// number of the template's default version, which each apply moves. Source: terraform-aws-eks, self-managed-node-group.
func (r recipe) terraformSign() string {
	if tag := cloud.TerraformTag(tagsOfGroup(r.group)); tag != "" {
		return fmt.Sprintf("tag %s names Terraform", tag)
	}
	if r.pinned() && r.isDefault && r.number > 1 {
		return fmt.Sprintf("the group names version %d by its number, which is also the template's default version, as the module terraform-aws-eks does",
			r.number)
	}
	return ""
}
