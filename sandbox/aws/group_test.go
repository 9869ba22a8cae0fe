package aws

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const testGroup = "nodes"

// template creates a launch template with one version.
func (c *testCloud) template(t *testing.T, name string) string {
	t.Helper()
	out := ok(c.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(testImage), InstanceType: testType}}))(t)
	return *out.LaunchTemplate.LaunchTemplateId
}

// group creates a group of n instances on version 1 of a new template, returns the ID of the template, and waits
// for the instances.
func (c *testCloud) group(t *testing.T, n int32, change func(*autoscaling.CreateAutoScalingGroupInput)) string {
	t.Helper()
	id := c.template(t, testGroup)
	in := &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup), MinSize: sdk.Int32(0),
		MaxSize: sdk.Int32(10), DesiredCapacity: &n,
		VPCZoneIdentifier: sdk.String(c.world.config.Subnets[0].ID + "," + c.world.config.Subnets[1].ID),
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: sdk.String("1")},
		Tags: []types.Tag{{Key: sdk.String("team"), Value: sdk.String("a"), PropagateAtLaunch: sdk.Bool(true)},
			{Key: sdk.String("cost"), Value: sdk.String("b"), PropagateAtLaunch: sdk.Bool(false)}}}
	if change != nil {
		change(in)
	}
	ok(c.asg.CreateAutoScalingGroup(t.Context(), in))(t)
	c.advance(time.Minute)
	return id
}

// currentGroup returns the current group.
func (c *testCloud) currentGroup(t *testing.T) types.AutoScalingGroup {
	t.Helper()
	out := ok(c.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{testGroup}}))(t)
	if len(out.AutoScalingGroups) != 1 {
		t.Fatalf("%d groups are called %s", len(out.AutoScalingGroups), testGroup)
	}
	return out.AutoScalingGroups[0]
}

// lifecycles lists a group's instances with their lifecycle, sorted.
func (c *testCloud) lifecycles(t *testing.T) string {
	t.Helper()
	g := c.currentGroup(t)
	var out []string
	for _, i := range g.Instances {
		out = append(out, string(i.LifecycleState))
	}
	slices.Sort(out)
	return fmt.Sprintf("%d: %s", *g.DesiredCapacity, strings.Join(out, " "))
}

func (c *testCloud) wantLifecycles(t *testing.T, want string) {
	t.Helper()
	if got := c.lifecycles(t); got != want {
		t.Fatalf("the group is %q, want %q", got, want)
	}
}

// member returns an instance's record in its group, or nil.
func (c *testCloud) member(t *testing.T, id string) *types.AutoScalingInstanceDetails {
	t.Helper()
	out := ok(c.asg.DescribeAutoScalingInstances(t.Context(), &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{id}}))(t)
	if len(out.AutoScalingInstances) == 0 {
		return nil
	}
	return &out.AutoScalingInstances[0]
}

// last is the group's latest activity.
func (c *testCloud) last(t *testing.T) types.Activity {
	t.Helper()
	return ok(c.asg.DescribeScalingActivities(t.Context(),
		&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: sdk.String(testGroup)}))(t).Activities[0]
}

func TestGroupKeepsItsSize(t *testing.T) {
	c := newCloud(t, nil)
	id := c.group(t, 3, nil)
	c.wantLifecycles(t, "3: InService InService InService")
	g := c.currentGroup(t)
	zones := map[string]int{}
	for _, i := range g.Instances {
		zones[*i.AvailabilityZone]++
		if *i.LaunchTemplate.LaunchTemplateId != id || *i.LaunchTemplate.Version != "1" || *i.HealthStatus != "Healthy" {
			t.Errorf("instance is of %v", i.LaunchTemplate)
		}
	}
	if zones[testRegion+"a"]+zones[testRegion+"b"] != 3 || zones[testRegion+"b"] == 0 {
		t.Errorf("zones are %v", zones)
	}
	tags := map[string]string{}
	for _, tag := range c.currentInstance(t, *g.Instances[0].InstanceId).Tags {
		tags[*tag.Key] = *tag.Value
	}
	for key, want := range map[string]string{
		"team": "a", "cost": "", "aws:autoscaling:groupName": testGroup, "aws:ec2launchtemplate:id": id, "aws:ec2launchtemplate:version": "1",
	} {
		if tags[key] != want {
			t.Errorf("tag %s is %q, want %q", key, tags[key], want)
		}
	}
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(1)}))(t)
	c.wantLifecycles(t, "1: InService Terminating Terminating")
	c.advance(2 * time.Minute)
	c.wantLifecycles(t, "1: InService")
	if c.fleet.Size() != 1 {
		t.Errorf("%d machines are left, want 1", c.fleet.Size())
	}
	_, err := c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(11)})
	wantCode(t, err, refused, "ValidationError")
	_, err = c.asg.DeleteAutoScalingGroup(t.Context(), &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup)})
	wantCode(t, err, refused, "ResourceInUse")
	ok(c.asg.DeleteAutoScalingGroup(t.Context(),
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup), ForceDelete: sdk.Bool(true)}))(t)
	c.advance(5 * time.Minute)
	_, err = c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(1)})
	wantCode(t, err, refused, "ValidationError")
	if c.fleet.Size() != 0 {
		t.Error("machines are left of a group that is gone")
	}
}

func TestUnhealthyInstancesAreReplaced(t *testing.T) {
	for name, strike := range map[string]func(t *testing.T, c *testCloud, id string){
		"stopped": func(t *testing.T, c *testCloud, id string) {
			ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
		},
		"terminated": func(t *testing.T, c *testCloud, id string) {
			ok(c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
		},
		"powered off by its guest": func(t *testing.T, c *testCloud, id string) {
			if err := c.Shutdown(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"called unhealthy": func(t *testing.T, c *testCloud, id string) {
			ok(c.asg.SetInstanceHealth(t.Context(), &autoscaling.SetInstanceHealthInput{InstanceId: &id, HealthStatus: sdk.String("Unhealthy")}))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, nil)
			c.group(t, 2, nil)
			id := *c.currentGroup(t).Instances[0].InstanceId
			strike(t, c, id)
			c.advance(10 * time.Minute)
			c.wantLifecycles(t, "2: InService InService")
			if c.member(t, id) != nil || c.currentInstance(t, id).State.Name != ec2types.InstanceStateNameTerminated {
				t.Error("it is still there")
			}
			if onlyStopped := name == "stopped" || name == "powered off by its guest"; slices.Contains(c.UpgradedByCloud(), id) != onlyStopped {
				t.Errorf("rolled were %v", c.UpgradedByCloud())
			}
		})
	}
}

// TestUnhealthyStays while a process is suspended, and is replaced when it resumes.
func TestUnhealthyStays(t *testing.T) {
	for process, health := range map[string]string{"HealthCheck": "HEALTHY", "ReplaceUnhealthy": "UNHEALTHY", "Terminate": "UNHEALTHY"} {
		t.Run(process, func(t *testing.T) {
			c := newCloud(t, nil)
			c.group(t, 2, nil)
			id := *c.currentGroup(t).Instances[0].InstanceId
			in := &autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(testGroup), ScalingProcesses: []string{process}}
			ok(c.asg.SuspendProcesses(t.Context(), in))(t)
			ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
			c.advance(10 * time.Minute)
			if got := c.member(t, id); got == nil || *got.HealthStatus != health || c.currentInstance(t, id).State.Name != ec2types.InstanceStateNameStopped {
				t.Fatalf("member is %+v", got)
			}
			if all := c.currentGroup(t).SuspendedProcesses; len(all) != 1 || *all[0].ProcessName != process {
				t.Errorf("suspended are %v", all)
			}
			ok(c.asg.ResumeProcesses(t.Context(), &autoscaling.ResumeProcessesInput{AutoScalingGroupName: sdk.String(testGroup)}))(t)
			c.advance(10 * time.Minute)
			c.wantLifecycles(t, "2: InService InService")
			if c.member(t, id) != nil {
				t.Error("it was not replaced")
			}
		})
	}
}

func TestSuspendedProcesses(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, nil)
	_, err := c.asg.SuspendProcesses(t.Context(),
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(testGroup), ScalingProcesses: []string{"Nap"}})
	wantCode(t, err, refused, "ValidationError")
	ok(c.asg.SuspendProcesses(t.Context(),
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(testGroup), ScalingProcesses: []string{"Launch"}}))(t)
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(3)}))(t)
	c.advance(10 * time.Minute)
	c.wantLifecycles(t, "3: InService InService")
}

func TestFailedLaunchIsRetried(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 1, nil)
	if err := c.Exhaust("*"); err != nil {
		t.Fatal(err)
	}
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(2)}))(t)
	c.advance(time.Minute)
	a := c.last(t)
	if a.StatusCode != types.ScalingActivityStatusCodeFailed || !strings.Contains(*a.StatusMessage, "sufficient "+testType+" capacity") {
		t.Errorf("activity is %s: %v", a.StatusCode, a.StatusMessage)
	}
	c.wantLifecycles(t, "2: InService")
	if err := c.Exhaust(); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * time.Minute)
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService")
	if a := c.last(t); a.StatusCode != types.ScalingActivityStatusCodeSuccessful || a.EndTime == nil {
		t.Errorf("activity is %s", a.StatusCode)
	}
}

// TestLatestAppliesAtCreation: a group with $Latest launches from a new version, and a pinned group does not.
func TestLatestAppliesAtCreation(t *testing.T) {
	for version, want := range map[string]string{"1": "1", "$Latest": "2", "$Default": "1"} {
		c := newCloud(t, nil)
		id := c.group(t, 1, func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = &version })
		ok(c.ec2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &id, SourceVersion: sdk.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m6i.xlarge"}}))(t)
		ok(c.asg.SetDesiredCapacity(t.Context(),
			&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(2)}))(t)
		c.advance(time.Minute)
		g := c.currentGroup(t)
		if got := *g.LaunchTemplate.Version; got != version {
			t.Errorf("the group says %s, want %s as it was written", got, version)
		}
		if got := *g.Instances[1].LaunchTemplate.Version; got != want || *g.Instances[0].LaunchTemplate.Version != "1" {
			t.Errorf("at %s the next instance is of version %s, want %s, and those that run stay", version, got, want)
		}
	}
}

func TestUpdatingAGroup(t *testing.T) {
	c := newCloud(t, nil)
	id := c.group(t, 2, nil)
	update := func(change func(*autoscaling.UpdateAutoScalingGroupInput)) error {
		in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup)}
		change(in)
		_, err := c.asg.UpdateAutoScalingGroup(t.Context(), in)
		return err
	}
	for name, change := range map[string]func(*autoscaling.UpdateAutoScalingGroupInput){
		"a version that is not there": func(in *autoscaling.UpdateAutoScalingGroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: sdk.String("7")}
		},
		"a minimum over the maximum": func(in *autoscaling.UpdateAutoScalingGroupInput) { in.MinSize = sdk.Int32(11) },
		"too many":                   func(in *autoscaling.UpdateAutoScalingGroupInput) { in.DesiredCapacity = sdk.Int32(11) },
		"two ways at once": func(in *autoscaling.UpdateAutoScalingGroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: &id}
			in.LaunchConfigurationName = sdk.String("x")
		},
		"a subnet that is not there": func(in *autoscaling.UpdateAutoScalingGroupInput) { in.VPCZoneIdentifier = sdk.String("subnet-1") },
	} {
		t.Log(name)
		wantCode(t, update(change), refused, "ValidationError")
	}
	if err := update(func(in *autoscaling.UpdateAutoScalingGroupInput) { in.MinSize = sdk.Int32(3) }); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	c.wantLifecycles(t, "3: InService InService InService")
	if err := update(func(in *autoscaling.UpdateAutoScalingGroupInput) { in.MinSize, in.MaxSize = sdk.Int32(0), sdk.Int32(1) }); err != nil {
		t.Fatal(err)
	}
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "1: InService")
	if g := c.currentGroup(t); *g.LaunchTemplate.Version != "1" || *g.MaxSize != 1 {
		t.Error("what was not written was changed")
	}
}

func TestMixedInstances(t *testing.T) {
	c := newCloud(t, nil)
	policy := func(version string) *types.MixedInstancesPolicy {
		return &types.MixedInstancesPolicy{
			InstancesDistribution: &types.InstancesDistribution{OnDemandBaseCapacity: sdk.Int32(1), OnDemandPercentageAboveBaseCapacity: sdk.Int32(0)},
			LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(testGroup),
				Version: &version},
				Overrides: []types.LaunchTemplateOverrides{{InstanceType: sdk.String("m6i.large")}, {InstanceType: sdk.String("m5.large")}}},
		}
	}
	c.group(t, 3, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate, in.MixedInstancesPolicy = nil, policy("1")
	})
	g := c.currentGroup(t)
	kinds, spot := map[string]int{}, 0
	for _, i := range g.Instances {
		kinds[*i.InstanceType]++
		if c.currentInstance(t, *i.InstanceId).InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
			spot++
		}
	}
	if kinds["m6i.large"] != 2 || kinds["m5.large"] != 1 || spot != 2 {
		t.Errorf("types are %v, %d of them spot, want both types and all spot but one", kinds, spot)
	}
	if g.LaunchTemplate != nil || len(g.MixedInstancesPolicy.LaunchTemplate.Overrides) != 2 ||
		*g.MixedInstancesPolicy.InstancesDistribution.OnDemandBaseCapacity != 1 {
		t.Errorf("policy reads %+v", g.MixedInstancesPolicy)
	}
	ok(c.ec2.CreateLaunchTemplateVersion(t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: sdk.String(testGroup), SourceVersion: sdk.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{KeyName: sdk.String("k")}}))(t)
	// An update with a policy without overrides removes the overrides, so clients must send the whole policy.
	next := policy("2")
	next.InstancesDistribution, next.LaunchTemplate.Overrides = nil, nil
	ok(c.asg.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup), MixedInstancesPolicy: next}))(t)
	g = c.currentGroup(t)
	if len(g.MixedInstancesPolicy.LaunchTemplate.Overrides) != 0 || *g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version != "2" {
		t.Errorf("policy reads %+v after an update without overrides", g.MixedInstancesPolicy.LaunchTemplate)
	}
	// A spot instance gets a notice two minutes before its end.
	for _, i := range g.Instances {
		if c.currentInstance(t, *i.InstanceId).InstanceLifecycle != ec2types.InstanceLifecycleTypeSpot {
			continue
		}
		if err := c.Interrupt(*i.InstanceId); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Minute)
		c.wantState(t, *i.InstanceId, ec2types.InstanceStateNameRunning)
		c.advance(5 * time.Minute)
		if got := c.currentInstance(t, *i.InstanceId); got.State.Name != ec2types.InstanceStateNameTerminated ||
			*got.StateReason.Code != "Server.SpotInstanceTermination" {
			t.Errorf("it is %s for %v", got.State.Name, got.StateReason)
		}
		break
	}
}

func TestGroupWithLaunchConfiguration(t *testing.T) {
	c := newCloud(t, nil)
	ok(c.asg.CreateLaunchConfiguration(t.Context(),
		&autoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: sdk.String("old"), ImageId: sdk.String(testImage),
			InstanceType: sdk.String(testType)}))(t)
	c.group(t, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate, in.LaunchConfigurationName = nil, sdk.String("old")
	})
	g := c.currentGroup(t)
	if *g.LaunchConfigurationName != "old" || g.LaunchTemplate != nil || *g.Instances[0].LaunchConfigurationName != "old" ||
		g.Instances[0].LaunchTemplate != nil {
		t.Errorf("the group reads %+v", g)
	}
	_, err := c.asg.DeleteLaunchConfiguration(t.Context(), &autoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: sdk.String("old")})
	wantCode(t, err, refused, "ResourceInUse")
	if all := ok(c.asg.DescribeLaunchConfigurations(t.Context(),
		&autoscaling.DescribeLaunchConfigurationsInput{}))(t).LaunchConfigurations; len(all) != 1 || *all[0].ImageId != testImage {
		t.Errorf("launch configurations are %+v", all)
	}
}

func TestTagsOfGroups(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 0, nil)
	tag := types.Tag{ResourceId: sdk.String(testGroup), ResourceType: sdk.String("auto-scaling-group"), Key: sdk.String("eks:nodegroup-name"),
		Value: sdk.String("x"), PropagateAtLaunch: sdk.Bool(true)}
	ok(c.asg.CreateOrUpdateTags(t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{tag}}))(t)
	byTag := &autoscaling.DescribeAutoScalingGroupsInput{Filters: []types.Filter{{Name: sdk.String("tag:eks:nodegroup-name"), Values: []string{"x"}}}}
	if all := ok(c.asg.DescribeAutoScalingGroups(t.Context(), byTag))(t).AutoScalingGroups; len(all) != 1 || len(all[0].Tags) != 3 {
		t.Errorf("by its tag is found %+v", all)
	}
	ok(c.asg.DeleteTags(t.Context(), &autoscaling.DeleteTagsInput{Tags: []types.Tag{tag}}))(t)
	if all := ok(c.asg.DescribeAutoScalingGroups(t.Context(), byTag))(t).AutoScalingGroups; len(all) != 0 {
		t.Errorf("by a tag that is gone is found %+v", all)
	}
	if all := ok(c.asg.DescribeTags(t.Context(),
		&autoscaling.DescribeTagsInput{Filters: []types.Filter{{Name: sdk.String("auto-scaling-group"),
			Values: []string{testGroup}}}}))(t).Tags; len(all) != 2 {
		t.Errorf("tags are %+v", all)
	}
	_, err := c.asg.CreateAutoScalingGroup(t.Context(),
		&autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(0)})
	wantCode(t, err, http.StatusBadRequest, "AlreadyExists")
}
