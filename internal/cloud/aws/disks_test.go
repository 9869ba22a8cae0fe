package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// withRoot is a recipe whose launch template gives the root volume a size.
func withRoot(size int32) recipe {
	return recipe{data: &ec2types.ResponseLaunchTemplateData{BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMapping{
		{DeviceName: sdk.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDevice{VolumeSize: sdk.Int32(size)}}}}}
}

// TestRootDiskTooLarge checks that the refusal names both sizes.
func TestRootDiskTooLarge(t *testing.T) {
	im := ec2types.Image{ImageId: sdk.String("ami-1"), RootDeviceName: sdk.String("/dev/xvda"), BlockDeviceMappings: []ec2types.BlockDeviceMapping{
		{DeviceName: sdk.String("/dev/xvda"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: sdk.Int32(40)}},
		{DeviceName: sdk.String("/dev/xvdb"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: sdk.Int32(900)}}}}
	for name, test := range map[string]struct {
		r       recipe
		refused bool
	}{
		"no template":  {recipe{}, false},
		"no size":      {recipe{data: &ec2types.ResponseLaunchTemplateData{}}, false},
		"smaller":      {withRoot(30), true},
		"equal":        {withRoot(40), false},
		"larger":       {withRoot(50), false},
		"other device": {recipe{data: &ec2types.ResponseLaunchTemplateData{BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMapping{{DeviceName: sdk.String("/dev/sda1"), Ebs: &ec2types.LaunchTemplateEbsBlockDevice{VolumeSize: sdk.Int32(8)}}}}}, false},
	} {
		got := refusalOfRoot(group{name: "workers"}, test.r, im)
		if (got != nil) != test.refused {
			t.Errorf("%s: %+v", name, got)
		}
		if got != nil && (!strings.Contains(got.What(), "40 GiB") || !strings.Contains(got.What(), "30 GiB") ||
			!strings.Contains(got.Remedy, "40 GiB") || !strings.Contains(got.Remedy, "30 GiB")) {
			t.Errorf("%s: %s", name, got.Message)
		}
	}
}

// TestUnitsOfCapacity checks which groups count instances.
func TestUnitsOfCapacity(t *testing.T) {
	weighted := func(weights ...string) types.AutoScalingGroup {
		policy := &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{}}
		for _, weight := range weights {
			o := types.LaunchTemplateOverrides{InstanceType: sdk.String("m6i.large")}
			if weight != "" {
				o.WeightedCapacity = sdk.String(weight)
			}
			policy.LaunchTemplate.Overrides = append(policy.LaunchTemplate.Overrides, o)
		}
		return types.AutoScalingGroup{MixedInstancesPolicy: policy}
	}
	for name, test := range map[string]struct {
		g    types.AutoScalingGroup
		want string
	}{
		"plain":      {types.AutoScalingGroup{}, ""},
		"units":      {types.AutoScalingGroup{DesiredCapacityType: sdk.String("units")}, ""},
		"vCPUs":      {types.AutoScalingGroup{DesiredCapacityType: sdk.String("vcpu")}, "vcpu"},
		"memory":     {types.AutoScalingGroup{DesiredCapacityType: sdk.String("memory-mib")}, "memory-mib"},
		"no weights": {weighted("", ""), ""},
		"weights 1":  {weighted("1", "1"), ""},
		"weights":    {weighted("1", "2"), "weights of instance types"},
	} {
		if got := unitOf(test.g); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
		found := reasons(refusalsOfGroup(group{},
			recipe{group: test.g, spec: &types.LaunchTemplateSpecification{}, data: &ec2types.ResponseLaunchTemplateData{ImageId: sdk.String("ami-1")}}))
		if slices.Contains(found, cloud.PoolUnsupported) != (test.want != "") {
			t.Errorf("%s: refusals %v", name, found)
		}
	}
}

// TestTypeOfTrial checks that a trial gets the most frequent type of the group's instances that the group still names.
func TestTypeOfTrial(t *testing.T) {
	mixed := func(overrides ...types.LaunchTemplateOverrides) types.AutoScalingGroup {
		g := types.AutoScalingGroup{MixedInstancesPolicy: &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{Overrides: overrides}}}
		for i, kind := range []string{"m7i.xlarge", "c6i.large", "c6i.large", "old.large", "old.large", "old.large", "m7i.xlarge"} {
			g.Instances = append(g.Instances, types.Instance{InstanceId: sdk.String(fmt.Sprint("i-", i)), InstanceType: sdk.String(kind)})
		}
		return g
	}
	named := func(kinds ...string) (all []types.LaunchTemplateOverrides) {
		for _, kind := range kinds {
			all = append(all, types.LaunchTemplateOverrides{InstanceType: sdk.String(kind)})
		}
		return all
	}
	for name, test := range map[string]struct {
		g    types.AutoScalingGroup
		want ec2types.InstanceType
	}{
		"plain":         {types.AutoScalingGroup{}, ""},
		"no overrides":  {mixed(), ""},
		"no instance":   {mixed(named("m6i.large", "m5.large")...), "m6i.large"},
		"most frequent": {mixed(named("c6i.large", "m6i.large", "old.large")...), "old.large"},
		"not named now": {mixed(named("m6i.large", "c6i.large")...), "c6i.large"},
		"equally many":  {mixed(named("c6i.large", "m7i.xlarge")...), "m7i.xlarge"},
		"by attributes": {mixed(types.LaunchTemplateOverrides{InstanceRequirements: &types.InstanceRequirements{}}), "old.large"},
	} {
		if got := besideType(recipe{group: test.g}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestZonesOfGroup checks when AWS may rebalance zones.
func TestZonesOfGroup(t *testing.T) {
	of := func(zones ...string) types.AutoScalingGroup {
		g := types.AutoScalingGroup{AvailabilityZones: []string{"a", "b"}}
		for _, zone := range zones {
			g.Instances = append(g.Instances, types.Instance{AvailabilityZone: sdk.String(zone), LifecycleState: types.LifecycleStateInService})
		}
		return g
	}
	standby, suspended := of("a", "b", "b"), of("a", "b", "b")
	standby.Instances[1].LifecycleState = types.LifecycleStateStandby
	suspended.SuspendedProcesses = []types.SuspendedProcess{{ProcessName: sdk.String("AZRebalance")}}
	for name, test := range map[string]struct {
		g            types.AutoScalingGroup
		zone, counts string
	}{
		"equal":      {of("a", "b"), "", ""},
		"unequal":    {of("a", "b", "b"), "b", "a: 1, b: 2"},
		"empty zone": {of("b", "b"), "", ""},
		"standby":    {standby, "", ""},
		"suspended":  {suspended, "", ""},
		"one zone":   {types.AutoScalingGroup{AvailabilityZones: []string{"a"}, Instances: of("a", "a").Instances}, "", ""},
	} {
		if zone, counts := fullestZone(test.g); zone != test.zone || counts != test.counts {
			t.Errorf("%s: %q, %q", name, zone, counts)
		}
	}
}

// TestNetworkOfTrial checks that a trial keeps the IPv6 and prefix settings of the launch template.
func TestNetworkOfTrial(t *testing.T) {
	r := recipe{group: types.AutoScalingGroup{VPCZoneIdentifier: sdk.String("subnet-1")}, spec: &types.LaunchTemplateSpecification{},
		data: &ec2types.ResponseLaunchTemplateData{
			NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{{
				PrimaryIpv6: sdk.Bool(true), Ipv4PrefixCount: sdk.Int32(2), Ipv6PrefixCount: sdk.Int32(1), SecondaryPrivateIpAddressCount: sdk.Int32(3),
				AssociateCarrierIpAddress: sdk.Bool(true),
				EnaSrdSpecification: &ec2types.LaunchTemplateEnaSrdSpecification{EnaSrdEnabled: sdk.Bool(true),
					EnaSrdUdpSpecification: &ec2types.LaunchTemplateEnaSrdUdpSpecification{EnaSrdUdpEnabled: sdk.Bool(true)}},
			}}}}
	n := launch(besideRef{}, r, besideSpec{ami: "ami-1"}).NetworkInterfaces[0]
	if !sdk.ToBool(n.PrimaryIpv6) || sdk.ToInt32(n.Ipv4PrefixCount) != 2 || sdk.ToInt32(n.Ipv6PrefixCount) != 1 ||
		sdk.ToInt32(n.SecondaryPrivateIpAddressCount) != 3 ||
		!sdk.ToBool(n.AssociateCarrierIpAddress) || !sdk.ToBool(n.EnaSrdSpecification.EnaSrdUdpSpecification.EnaSrdUdpEnabled) ||
		sdk.ToString(n.SubnetId) != "subnet-1" {
		t.Errorf("%+v", n)
	}
}
