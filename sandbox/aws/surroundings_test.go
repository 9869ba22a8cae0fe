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
	available := []ec2types.Filter{{Name: sdk.String("state"), Values: []string{"pending", "available"}}}
	subnets := ok(c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: available}))(t).Subnets
	if len(zones) == 0 || len(subnets) == 0 || *subnets[0].AvailabilityZone != *zones[0].ZoneName {
		t.Errorf("%d zones, %d subnets", len(zones), len(subnets))
	}
	kinds := ok(c.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"m7g.large"}}))(t).InstanceTypes
	if len(kinds) != 1 || kinds[0].ProcessorInfo.SupportedArchitectures[0] != ec2types.ArchitectureTypeArm64 {
		t.Errorf("%+v", kinds)
	}
	ok(c.asg.DescribePolicies(t.Context(), &autoscaling.DescribePoliciesInput{AutoScalingGroupName: name}))(t)
	ok(c.asg.DescribeScheduledActions(t.Context(), &autoscaling.DescribeScheduledActionsInput{}))(t)
	_, err := c.asg.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name,
			CapacityReservationSpecification: &types.CapacityReservationSpecification{CapacityReservationPreference: "none"}})
	wantCode(t, err, refused, "ValidationError")
	if !strings.Contains(err.Error(), "CapacityReservationSpecification") {
		t.Errorf("the parameter is not named: %v", err)
	}
}

// TestCallsOfClusterAPI sends requests of Cluster API's provider for AWS (v2.13): subnets with blanks, the network of an
// instance, and its metadata options.
func TestCallsOfClusterAPI(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 1, nil)
	subnets := ok(c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t).Subnets
	ok(c.asg.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup),
			VPCZoneIdentifier: sdk.String(*subnets[0].SubnetId + ", " + *subnets[1].SubnetId)}))(t)
	if g := ok(c.asg.DescribeAutoScalingGroups(t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{}))(t).AutoScalingGroups[0]; len(g.AvailabilityZones) != 2 {
		t.Errorf("the group has the zones %v", g.AvailabilityZones)
	}
	m := ok(c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}))(t).Reservations[0].Instances[0]
	if o := m.MetadataOptions; o == nil || o.HttpEndpoint != ec2types.InstanceMetadataEndpointStateEnabled ||
		o.State != ec2types.InstanceMetadataOptionsStateApplied {
		t.Fatalf("the metadata options are %+v", o)
	}
	ok(c.ec2.ModifyInstanceMetadataOptions(t.Context(),
		&ec2.ModifyInstanceMetadataOptionsInput{InstanceId: m.InstanceId, HttpPutResponseHopLimit: sdk.Int32(3)}))(t)
	again := ok(c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{*m.InstanceId}}))(t).Reservations[0].Instances[0]
	if *again.MetadataOptions.HttpPutResponseHopLimit != 3 || again.MetadataOptions.HttpTokens != m.MetadataOptions.HttpTokens {
		t.Errorf("the metadata options became %+v", again.MetadataOptions)
	}
	of := []ec2types.Filter{{Name: sdk.String("attachment.instance-id"), Values: []string{*m.InstanceId}}}
	faces := ok(c.ec2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{Filters: of}))(t).NetworkInterfaces
	vpcs := ok(c.ec2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{*m.VpcId}}))(t).Vpcs
	ok(c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{*faces[0].NetworkInterfaceId},
		Tags: []ec2types.Tag{{Key: sdk.String("a"), Value: sdk.String("b")}}}))(t)
	if of := ok(c.ec2.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{Filters: of}))(t).NetworkInterfaces[0]; len(of.TagSet) != 1 || *of.TagSet[0].Value != "b" {
		t.Errorf("the network interface has the tags %+v", of.TagSet)
	}
	options := ok(c.ec2.DescribeDhcpOptions(t.Context(), &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{*vpcs[0].DhcpOptionsId}}))(t).DhcpOptions
	if len(options) != 1 || *options[0].DhcpConfigurations[0].Values[0].Value != testRegion+domainSuffix {
		t.Errorf("the DHCP options are %+v", options)
	}
	if len(faces) != 1 || *faces[0].PrivateIpAddress != *m.PrivateIpAddress || len(vpcs) != 1 || vpcs[0].State != ec2types.VpcStateAvailable {
		t.Errorf("%+v, %+v", faces, vpcs)
	}
}

// TestSharedImage shares an image, copies it, and marks it as deprecated.
func TestSharedImage(t *testing.T) {
	c := newCloud(t, nil)
	made := ok(c.ec2.CopyImage(t.Context(),
		&ec2.CopyImageInput{Name: sdk.String("copy"), SourceImageId: sdk.String(testImage), SourceRegion: sdk.String(testRegion)}))(t)
	c.advance(time.Hour)
	id := made.ImageId
	ok(c.ec2.ModifyImageAttribute(t.Context(), &ec2.ModifyImageAttributeInput{ImageId: id, LaunchPermission: &ec2types.LaunchPermissionModifications{
		Add: []ec2types.LaunchPermission{{UserId: sdk.String("210987654321")}, {UserId: sdk.String("310987654321")}}}}))(t)
	ok(c.ec2.ModifyImageAttribute(t.Context(), &ec2.ModifyImageAttributeInput{ImageId: id, LaunchPermission: &ec2types.LaunchPermissionModifications{
		Remove: []ec2types.LaunchPermission{{UserId: sdk.String("310987654321")}}}}))(t)
	out := ok(c.ec2.DescribeImageAttribute(t.Context(),
		&ec2.DescribeImageAttributeInput{ImageId: id, Attribute: ec2types.ImageAttributeNameLaunchPermission}))(t)
	if len(out.LaunchPermissions) != 1 || *out.LaunchPermissions[0].UserId != "210987654321" {
		t.Errorf("%+v", out.LaunchPermissions)
	}
	ok(c.ec2.EnableImageDeprecation(t.Context(),
		&ec2.EnableImageDeprecationInput{ImageId: id, DeprecateAt: sdk.Time(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}))(t)
	im := ok(c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{*id}}))(t).Images[0]
	if im.State != ec2types.ImageStateAvailable || *im.SourceImageId != testImage || !strings.HasPrefix(sdk.ToString(im.DeprecationTime), "2030-01-01") {
		t.Errorf("%+v", im)
	}
}

// TestNetworks makes a network with an instance, and removes it from the inside out.
func TestNetworks(t *testing.T) {
	c := newCloud(t, nil)
	ctx := t.Context()
	tags := func(kind ec2types.ResourceType) []ec2types.TagSpecification {
		return []ec2types.TagSpecification{{ResourceType: kind, Tags: []ec2types.Tag{{Key: sdk.String("run"), Value: sdk.String("a")}}}}
	}
	vpc := ok(c.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: sdk.String("10.1.0.0/24"), TagSpecifications: tags(ec2types.ResourceTypeVpc)}))(t).Vpc.VpcId
	subnet := ok(c.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: vpc, CidrBlock: sdk.String("10.1.0.0/25"), AvailabilityZone: sdk.String(testRegion + "b"),
		TagSpecifications: tags(ec2types.ResourceTypeSubnet)}))(t).Subnet.SubnetId
	ours := []ec2types.Filter{{Name: sdk.String("tag:run"), Values: []string{"a"}}}
	if all := ok(c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: ours}))(t).Subnets; len(all) != 1 || *all[0].VpcId != *vpc {
		t.Errorf("the subnets with the tag are %+v", all)
	}
	if all := ok(c.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: ours}))(t).Vpcs; len(all) != 1 || *all[0].VpcId != *vpc {
		t.Errorf("the VPCs with the tag are %+v", all)
	}
	i := ok(c.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1),
		SubnetId: subnet}))(t).Instances[0]
	if *i.VpcId != *vpc || *i.Placement.AvailabilityZone != testRegion+"b" {
		t.Errorf("the instance is in %s, %s", *i.VpcId, *i.Placement.AvailabilityZone)
	}
	_, err := c.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: subnet})
	wantCode(t, err, refused, "DependencyViolation")
	_, err = c.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: vpc})
	wantCode(t, err, refused, "DependencyViolation")
	ok(c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	c.advance(10 * time.Minute)
	ok(c.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: subnet}))(t)
	ok(c.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: vpc}))(t)
	_, err = c.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{*vpc}})
	wantCode(t, err, refused, "InvalidVpcID.NotFound")
}
