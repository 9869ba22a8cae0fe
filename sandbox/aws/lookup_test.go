package aws

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestLookups reads what people look up with the command line, and the settings of a group that have parts.
func TestLookups(t *testing.T) {
	c := newCloud(t, nil)
	name, ctx := sdk.String(testGroup), t.Context()
	c.group(t, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.TargetGroupARNs = []string{"arn:target"}
		in.InstanceMaintenancePolicy = &types.InstanceMaintenancePolicy{MinHealthyPercentage: sdk.Int32(90), MaxHealthyPercentage: sdk.Int32(120)}
		in.AvailabilityZoneDistribution = &types.AvailabilityZoneDistribution{CapacityDistributionStrategy: types.CapacityDistributionStrategyBalancedOnly}
	})
	full := c.currentGroup(t)
	if p, d := full.InstanceMaintenancePolicy, full.AvailabilityZoneDistribution; p == nil || *p.MaxHealthyPercentage != 120 || d == nil ||
		d.CapacityDistributionStrategy != types.CapacityDistributionStrategyBalancedOnly || len(full.Instances) != 1 {
		t.Errorf("%+v", full)
	}
	short := ok(c.asg.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{IncludeInstances: sdk.Bool(false)}))(t)
	if g := short.AutoScalingGroups[0]; len(g.Instances) != 0 || *g.DesiredCapacity != 1 {
		t.Errorf("without instances: %+v", g)
	}
	ok(c.asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name,
		InstanceMaintenancePolicy: &types.InstanceMaintenancePolicy{MinHealthyPercentage: sdk.Int32(-1), MaxHealthyPercentage: sdk.Int32(-1)}}))(t)
	if g := c.currentGroup(t); g.InstanceMaintenancePolicy != nil || g.AvailabilityZoneDistribution == nil {
		t.Errorf("after the update: %+v", g)
	}

	targets := ok(c.asg.DescribeLoadBalancerTargetGroups(ctx, &autoscaling.DescribeLoadBalancerTargetGroupsInput{AutoScalingGroupName: name}))(t)
	sources := ok(c.asg.DescribeTrafficSources(ctx, &autoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: name}))(t)
	others := ok(c.asg.DescribeTrafficSources(ctx,
		&autoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: name, TrafficSourceType: sdk.String("elb")}))(t)
	if len(targets.LoadBalancerTargetGroups) != 1 || len(sources.TrafficSources) != 1 || *sources.TrafficSources[0].Identifier != "arn:target" ||
		len(others.TrafficSources) != 0 {
		t.Errorf("%+v %+v %+v", targets, sources, others)
	}
	limits := ok(c.asg.DescribeAccountLimits(ctx, &autoscaling.DescribeAccountLimitsInput{}))(t)
	if *limits.NumberOfAutoScalingGroups != 1 || *limits.MaxNumberOfAutoScalingGroups != 500 {
		t.Errorf("%+v", limits)
	}

	id := full.Instances[0].InstanceId
	data := ok(c.ec2.GetLaunchTemplateData(ctx, &ec2.GetLaunchTemplateDataInput{InstanceId: id}))(t).LaunchTemplateData
	if sdk.ToString(data.ImageId) != testImage || data.InstanceType == "" {
		t.Errorf("%+v", data)
	}
	snapshot := c.shoot(t, *id)
	shared := ok(c.ec2.DescribeSnapshotAttribute(ctx, &ec2.DescribeSnapshotAttributeInput{SnapshotId: &snapshot,
		Attribute: ec2types.SnapshotAttributeNameCreateVolumePermission}))(t)
	if len(shared.CreateVolumePermissions) != 0 || *shared.SnapshotId != snapshot {
		t.Errorf("%+v", shared)
	}
	_, err := c.ec2.DescribeSnapshotAttribute(ctx, &ec2.DescribeSnapshotAttributeInput{SnapshotId: sdk.String("snap-00000000000000000"),
		Attribute: ec2types.SnapshotAttributeNameCreateVolumePermission})
	wantCode(t, err, refused, "InvalidSnapshot.NotFound")

	me := c.config.Users[0].Name
	for request, want := range map[string]struct {
		status int
		text   string
	}{
		"Action=GetUser":                 {http.StatusOK, "<UserName>" + me + "</UserName>"},
		"Action=GetUser&UserName=nobody": {http.StatusNotFound, "NoSuchEntity"},
		"Action=ListInstanceProfiles":    {http.StatusOK, "<IsTruncated>false</IsTruncated>"},
	} {
		if status, answer := c.sendSigned(t, "iam", request+"&Version=2010-05-08"); status != want.status || !strings.Contains(answer, want.text) {
			t.Errorf("%s: %d %s", request, status, answer)
		}
	}
}
