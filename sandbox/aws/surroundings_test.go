package aws

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestSurroundings reads what operators read around a capture.
func TestSurroundings(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 1, nil)
	name := sdk.String(testGroup)
	zones := ok(c.ec2.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{}))(t).AvailabilityZones
	subnets := ok(c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t).Subnets
	if len(zones) == 0 || len(subnets) == 0 || *subnets[0].AvailabilityZone != *zones[0].ZoneName {
		t.Errorf("%d zones, %d subnets", len(zones), len(subnets))
	}
	kinds := ok(c.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"m7g.large"}}))(t).InstanceTypes
	if len(kinds) != 1 || kinds[0].ProcessorInfo.SupportedArchitectures[0] != ec2types.ArchitectureTypeArm64 {
		t.Errorf("%+v", kinds)
	}
	ok(c.asg.DescribeLifecycleHooks(t.Context(), &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: name}))(t)
	ok(c.asg.DescribePolicies(t.Context(), &autoscaling.DescribePoliciesInput{AutoScalingGroupName: name}))(t)
	ok(c.asg.DescribeScheduledActions(t.Context(), &autoscaling.DescribeScheduledActionsInput{}))(t)
	_, err := c.asg.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, InstanceMaintenancePolicy: &types.InstanceMaintenancePolicy{MinHealthyPercentage: sdk.Int32(90), MaxHealthyPercentage: sdk.Int32(120)}})
	wantCode(t, err, refused, "ValidationError")
	if !strings.Contains(err.Error(), "InstanceMaintenancePolicy") {
		t.Errorf("the parameter is not named: %v", err)
	}
}

// TestSharedImage shares an image, copies it, and marks it as deprecated.
func TestSharedImage(t *testing.T) {
	c := newCloud(t, nil)
	made := ok(c.ec2.CopyImage(t.Context(), &ec2.CopyImageInput{Name: sdk.String("copy"), SourceImageId: sdk.String(testImage), SourceRegion: sdk.String(testRegion)}))(t)
	c.pass(time.Hour)
	id := made.ImageId
	ok(c.ec2.ModifyImageAttribute(t.Context(), &ec2.ModifyImageAttributeInput{ImageId: id, LaunchPermission: &ec2types.LaunchPermissionModifications{
		Add: []ec2types.LaunchPermission{{UserId: sdk.String("210987654321")}, {UserId: sdk.String("310987654321")}}}}))(t)
	ok(c.ec2.ModifyImageAttribute(t.Context(), &ec2.ModifyImageAttributeInput{ImageId: id, LaunchPermission: &ec2types.LaunchPermissionModifications{
		Remove: []ec2types.LaunchPermission{{UserId: sdk.String("310987654321")}}}}))(t)
	out := ok(c.ec2.DescribeImageAttribute(t.Context(), &ec2.DescribeImageAttributeInput{ImageId: id, Attribute: ec2types.ImageAttributeNameLaunchPermission}))(t)
	if len(out.LaunchPermissions) != 1 || *out.LaunchPermissions[0].UserId != "210987654321" {
		t.Errorf("%+v", out.LaunchPermissions)
	}
	ok(c.ec2.EnableImageDeprecation(t.Context(), &ec2.EnableImageDeprecationInput{ImageId: id, DeprecateAt: sdk.Time(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}))(t)
	im := ok(c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{*id}}))(t).Images[0]
	if im.State != ec2types.ImageStateAvailable || *im.SourceImageId != testImage || !strings.HasPrefix(sdk.ToString(im.DeprecationTime), "2030-01-01") {
		t.Errorf("%+v", im)
	}
}
