package aws

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (c *testCloud) enter(t *testing.T, id string, decrement bool) error {
	t.Helper()
	_, err := c.asg.EnterStandby(t.Context(),
		&autoscaling.EnterStandbyInput{AutoScalingGroupName: sdk.String(testGroup), InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: &decrement})
	return err
}

func (c *testCloud) exit(t *testing.T, id string) error {
	t.Helper()
	_, err := c.asg.ExitStandby(t.Context(), &autoscaling.ExitStandbyInput{AutoScalingGroupName: sdk.String(testGroup), InstanceIds: []string{id}})
	return err
}

// TestStandbyRebalancesZones: a donor from a zone with fewer instances makes AWS terminate an instance of another zone. A donor
// from the fullest zone does not, and neither does a group with the process suspended.
func TestStandbyRebalancesZones(t *testing.T) {
	for name, test := range map[string]struct {
		zones     int // of the group's instances with the donor's zone
		suspended bool
		lost      bool
	}{
		"smaller zone":   {zones: 2, lost: true},
		"fullest zone":   {zones: 3},
		"smaller, quiet": {zones: 2, suspended: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, nil)
			c.group(t, 5, nil) // in two zones
			if test.suspended {
				ok(c.asg.SuspendProcesses(t.Context(),
					&autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(testGroup), ScalingProcesses: []string{"AZRebalance"}}))(t)
			}
			zones, before := map[string]int{}, map[string]bool{}
			for _, m := range c.currentGroup(t).Instances {
				zones[*m.AvailabilityZone]++
				before[*m.InstanceId] = true
			}
			for _, m := range c.currentGroup(t).Instances {
				if zones[*m.AvailabilityZone] == test.zones {
					if err := c.enter(t, *m.InstanceId, true); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
			c.advance(10 * time.Minute)
			g := c.currentGroup(t)
			for _, m := range g.Instances {
				delete(before, *m.InstanceId)
			}
			if lost := len(before) > 0; lost != test.lost || *g.DesiredCapacity != 4 {
				t.Errorf("gone are %v, and the size is %d", before, *g.DesiredCapacity)
			}
		})
	}
}

// inOneZone is a change of group: a group in one zone is not rebalanced.
func (c *testCloud) inOneZone(in *autoscaling.CreateAutoScalingGroupInput) {
	in.VPCZoneIdentifier = sdk.String(c.world.config.Subnets[0].ID)
}

// TestDonorThroughStandby: an instance in standby can be stopped for any time, and the group launches no
// replacement.
func TestDonorThroughStandby(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 3, c.inOneZone)
	id := *c.currentGroup(t).Instances[1].InstanceId
	if err := c.enter(t, id, true); err != nil {
		t.Fatal(err)
	}
	c.wantLifecycles(t, "2: EnteringStandby InService InService")
	wantCode(t, c.enter(t, id, true), refused, "ValidationError")
	wantCode(t, c.exit(t, id), refused, "ValidationError") // not before the end of the transition
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService Standby")
	wantCode(t, c.enter(t, id, true), refused, "ValidationError")
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	c.advance(24 * time.Hour)
	c.wantLifecycles(t, "2: InService InService Standby")
	if got := c.member(t, id); *got.HealthStatus != "HEALTHY" || c.fleet.Size() != 3 {
		t.Errorf("it is %s, of %d machines", *got.HealthStatus, c.fleet.Size())
	}
	ok(c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}))(t)
	c.advance(time.Minute)
	if err := c.exit(t, id); err != nil {
		t.Fatal(err)
	}
	c.wantLifecycles(t, "3: InService InService Pending")
	c.advance(10 * time.Minute)
	if rolled := c.UpgradedByCloud(); len(rolled) > 0 {
		t.Errorf("rolled were %v", rolled)
	}
	c.wantLifecycles(t, "3: InService InService InService")
	if a := c.last(t); a.StatusCode != types.ScalingActivityStatusCodeSuccessful || *a.Description != "Moving EC2 instance out of Standby: "+id {
		t.Errorf("the last activity is %s: %s", a.StatusCode, *a.Description)
	}
}

// TestStandbyWithoutDecrement: the group launches a replacement, and has one instance more after the standby.
func TestStandbyWithoutDecrement(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, nil)
	id := *c.currentGroup(t).Instances[0].InstanceId
	if err := c.enter(t, id, false); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService Standby")
	if err := c.exit(t, id); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	c.wantLifecycles(t, "3: InService InService InService")
}

func TestStandbyAtTheBounds(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize, in.MaxSize = sdk.Int32(2), sdk.Int32(2) })
	id := *c.currentGroup(t).Instances[0].InstanceId
	wantCode(t, c.enter(t, id, true), refused, "ValidationError")
	c.wantLifecycles(t, "2: InService InService")
	ok(c.asg.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup), MinSize: sdk.Int32(1)}))(t)
	if err := c.enter(t, id, true); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(2)}))(t)
	c.advance(time.Minute)
	wantCode(t, c.exit(t, id), refused, "ValidationError") // there is no room at the maximum
	wantCode(t, c.enter(t, "i-00000000000000000", true), refused, "ValidationError")
}

// TestTerminationInStandby: there is nothing to hold any more.
func TestTerminationInStandby(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, nil)
	id := *c.currentGroup(t).Instances[0].InstanceId
	if err := c.enter(t, id, true); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	ok(c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	c.advance(10 * time.Minute)
	c.wantLifecycles(t, "1: InService")
}

func (c *testCloud) protect(t *testing.T, id string, value bool) error {
	t.Helper()
	_, err := c.asg.SetInstanceProtection(t.Context(),
		&autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: sdk.String(testGroup), InstanceIds: []string{id}, ProtectedFromScaleIn: &value})
	return err
}

// TestProtectionIsForScaleInOnly: an unhealthy instance is replaced in spite of its protection.
func TestProtectionIsForScaleInOnly(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 3, nil)
	g := c.currentGroup(t)
	first, second := *g.Instances[0].InstanceId, *g.Instances[1].InstanceId
	for _, id := range []string{first, second} {
		if err := c.protect(t, id, true); err != nil {
			t.Fatal(err)
		}
	}
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(0)}))(t)
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "0: InService InService")
	if got := c.member(t, first); got == nil || !*got.ProtectedFromScaleIn {
		t.Errorf("member is %+v", got)
	}
	if err := c.protect(t, first, false); err != nil {
		t.Fatal(err)
	}
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "0: InService")
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{second}}))(t)
	c.advance(10 * time.Minute)
	if c.member(t, second) != nil {
		t.Error("a protected instance that was stopped is still there")
	}
}

func TestTerminatingInAGroup(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 3, func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = sdk.Int32(2) })
	end := func(decrement bool) (string, error) {
		id := *c.currentGroup(t).Instances[0].InstanceId
		out, err := c.asg.TerminateInstanceInAutoScalingGroup(t.Context(),
			&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: &decrement})
		if err == nil && *out.Activity.Description != "Terminating EC2 instance: "+id {
			t.Errorf("activity is %s", *out.Activity.Description)
		}
		return id, err
	}
	id, err := end(true)
	if err != nil {
		t.Fatal(err)
	}
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "2: InService InService")
	c.wantState(t, id, ec2types.InstanceStateNameTerminated)
	_, err = end(true)
	wantCode(t, err, refused, "ValidationError")
	if _, err := end(false); err != nil {
		t.Fatal(err)
	}
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "2: InService InService")
}

func TestDetachAndAttach(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, nil)
	id := *c.currentGroup(t).Instances[0].InstanceId
	in := &autoscaling.DetachInstancesInput{AutoScalingGroupName: sdk.String(testGroup), InstanceIds: []string{id},
		ShouldDecrementDesiredCapacity: sdk.Bool(true)}
	ok(c.asg.DetachInstances(t.Context(), in))(t)
	c.advance(time.Minute)
	c.wantLifecycles(t, "1: InService")
	c.wantState(t, id, ec2types.InstanceStateNameRunning)
	for _, tag := range c.currentInstance(t, id).Tags {
		if *tag.Key == "aws:autoscaling:groupName" {
			t.Error("it still says that it is of the group")
		}
	}
	attach := &autoscaling.AttachInstancesInput{AutoScalingGroupName: sdk.String(testGroup), InstanceIds: []string{id}}
	ok(c.asg.AttachInstances(t.Context(), attach))(t)
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService")
	_, err := c.asg.AttachInstances(t.Context(), attach)
	wantCode(t, err, refused, "ValidationError")
	ok(c.asg.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup), MaxSize: sdk.Int32(2)}))(t)
	other := c.run(t, 1, nil)[0]
	_, err = c.asg.AttachInstances(t.Context(),
		&autoscaling.AttachInstancesInput{AutoScalingGroupName: sdk.String(testGroup), InstanceIds: []string{*other.InstanceId}})
	wantCode(t, err, refused, "ValidationError")
	in.ShouldDecrementDesiredCapacity = sdk.Bool(false)
	ok(c.asg.DetachInstances(t.Context(), in))(t)
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService") // a replacement
	if c.fleet.Size() != 4 {
		t.Errorf("%d machines run, want the two of the group, the one that left and the one that never was in it", c.fleet.Size())
	}
}
