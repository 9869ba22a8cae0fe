package aws

import (
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestFleet: an instant fleet makes all its instances from the first override that has capacity, tagged as asked, and says why others
// failed. A repeated request makes no more. The instances show the groups of the template's network interface, which Karpenter compares.
func TestFleet(t *testing.T) {
	c := newCloud(t, nil)
	ok(c.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("of-a-fleet"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(testImage), NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: sdk.Int32(0), Groups: []string{securityGroup}}}}}))(t)
	subnets := ok(c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t).Subnets
	override := func(kind ec2types.InstanceType, subnet ec2types.Subnet) ec2types.FleetLaunchTemplateOverridesRequest {
		return ec2types.FleetLaunchTemplateOverridesRequest{InstanceType: kind, SubnetId: subnet.SubnetId, AvailabilityZone: subnet.AvailabilityZone}
	}
	in := &ec2.CreateFleetInput{Type: ec2types.FleetTypeInstant, ClientToken: sdk.String("once"),
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(2), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
		TagSpecifications:           []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: sdk.String("of"), Value: sdk.String("fleet")}}}},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: sdk.String("of-a-fleet"), Version: sdk.String("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{override("m5.large", subnets[0]), override("m6i.large", subnets[1])},
		}}}
	if err := c.Exhaust("m5.large"); err != nil {
		t.Fatal(err)
	}
	var made []string
	for range 2 {
		out := ok(c.ec2.CreateFleet(t.Context(), in))(t)
		if len(out.Instances) != 1 || out.Instances[0].InstanceType != "m6i.large" || len(out.Instances[0].InstanceIds) != 2 || len(out.Errors) != 1 ||
			*out.Errors[0].ErrorCode != "InsufficientInstanceCapacity" || out.Errors[0].LaunchTemplateAndOverrides.Overrides.InstanceType != "m5.large" {
			t.Fatalf("the fleet is %+v", out)
		}
		made = append(made, out.Instances[0].InstanceIds...)
	}
	slices.Sort(made)
	if made = slices.Compact(made); len(made) != 2 {
		t.Fatalf("the instances are %v", made)
	}
	for _, r := range ok(c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: made}))(t).Reservations {
		for _, i := range r.Instances {
			if *i.Placement.AvailabilityZone != *subnets[1].AvailabilityZone || !slices.ContainsFunc(i.Tags, func(t ec2types.Tag) bool { return *t.Key == "of" }) ||
				len(i.SecurityGroups) != 1 || *i.SecurityGroups[0].GroupId != securityGroup {
				t.Errorf("instance %+v", i)
			}
		}
	}
	if err := c.Exhaust("*"); err != nil {
		t.Fatal(err)
	}
	in.ClientToken = sdk.String("twice")
	if out := ok(c.ec2.CreateFleet(t.Context(), in))(t); len(out.Instances) != 0 || len(out.Errors) != 2 {
		t.Errorf("without capacity: %+v", out)
	}
}

// TestCatalogue: lists without names have the types that Karpenter needs. Without m5.large and m6g.large, it panics at a class that no
// NodePool names.
func TestCatalogue(t *testing.T) {
	c := newCloud(t, nil)
	out := ok(c.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(100), Filters: []ec2types.Filter{
		{Name: sdk.String("supported-virtualization-type"), Values: []string{"hvm"}},
		{Name: sdk.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}}}}))(t)
	var names []ec2types.InstanceType
	for _, kind := range out.InstanceTypes {
		names = append(names, kind.InstanceType)
		if n := kind.NetworkInfo; n == nil || len(n.NetworkCards) != 1 || n.Ipv4AddressesPerInterface == nil || n.DefaultNetworkCardIndex == nil || kind.EbsInfo == nil {
			t.Errorf("%+v", kind)
		}
	}
	if !slices.Contains(names, "m5.large") || !slices.Contains(names, "m6g.large") {
		t.Errorf("the types are %v", names)
	}
	offers := ok(c.ec2.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{LocationType: ec2types.LocationTypeAvailabilityZone}))(t)
	if zones := len(c.world.config.Subnets); len(offers.InstanceTypeOfferings) != zones*len(names) {
		t.Errorf("%d offers of %d types in %d zones", len(offers.InstanceTypeOfferings), len(names), zones)
	}
}
