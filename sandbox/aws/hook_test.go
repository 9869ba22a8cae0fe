package aws

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// hook creates a lifecycle hook of the group with the default timeout.
func (c *testCloud) hook(t *testing.T, name, transition string) {
	t.Helper()
	ok(c.asg.PutLifecycleHook(t.Context(),
		&autoscaling.PutLifecycleHookInput{AutoScalingGroupName: sdk.String(testGroup), LifecycleHookName: &name, LifecycleTransition: &transition}))(t)
}

// complete ends the wait of the instance in a lifecycle state for a hook.
func (c *testCloud) complete(t *testing.T, in types.LifecycleState, name, result string) {
	t.Helper()
	for _, m := range c.currentGroup(t).Instances {
		if m.LifecycleState == in {
			ok(c.asg.CompleteLifecycleAction(t.Context(), &autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: sdk.String(testGroup),
				LifecycleHookName: &name, LifecycleActionResult: &result, InstanceId: m.InstanceId}))(t)
			return
		}
	}
	t.Fatalf("no instance is %s: %s", in, c.lifecycles(t))
}

// TestLaunchHook: an instance waits for each hook of the launch. An abandoned instance, or an instance after the timeout, is
// replaced. An instance that leaves standby does not wait.
func TestLaunchHook(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 1, c.inOneZone)
	c.hook(t, "first", hookLaunching)
	c.hook(t, "second", hookLaunching)
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(2)}))(t)
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService Pending:Wait")
	waiting := func() string {
		for _, m := range c.currentGroup(t).Instances {
			if m.LifecycleState == types.LifecycleStatePendingWait {
				return *m.InstanceId
			}
		}
		return ""
	}
	id := waiting()
	c.complete(t, types.LifecycleStatePendingWait, "first", hookAbandon)
	c.advance(10 * time.Minute)
	c.wantLifecycles(t, "2: InService Pending:Wait")
	if c.member(t, id) != nil {
		t.Errorf("the abandoned instance %s is still in the group", id)
	}
	id = waiting()
	c.advance(time.Hour)
	if c.member(t, id) != nil {
		t.Errorf("instance %s is still in the group after the timeout", id)
	}
	c.advance(10 * time.Minute)
	c.complete(t, types.LifecycleStatePendingWait, "first", hookContinue)
	c.wantLifecycles(t, "2: InService Pending:Wait")
	c.complete(t, types.LifecycleStatePendingWait, "second", hookContinue)
	c.wantLifecycles(t, "2: InService InService")
	id = *c.currentGroup(t).Instances[0].InstanceId
	if err := c.enter(t, id, true); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	if err := c.exit(t, id); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService")
}

// TestTerminationHook: an instance waits before its termination until the hook is deleted, and a completed wait ends for good.
func TestTerminationHook(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, c.inOneZone)
	c.hook(t, "drain", hookTerminating)
	name := sdk.String("drain")
	ok(c.asg.PutLifecycleHook(t.Context(),
		&autoscaling.PutLifecycleHookInput{AutoScalingGroupName: sdk.String(testGroup), LifecycleHookName: name, HeartbeatTimeout: sdk.Int32(300)}))(t)
	all := ok(c.asg.DescribeLifecycleHooks(t.Context(),
		&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: sdk.String(testGroup)}))(t).LifecycleHooks
	if len(all) != 1 || *all[0].LifecycleTransition != hookTerminating || *all[0].HeartbeatTimeout != 300 || *all[0].DefaultResult != hookAbandon ||
		*all[0].GlobalTimeout != 30000 {
		t.Fatalf("the hooks are %+v", all)
	}
	first := *c.currentGroup(t).Instances[0].InstanceId
	ok(c.asg.TerminateInstanceInAutoScalingGroup(t.Context(),
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &first, ShouldDecrementDesiredCapacity: sdk.Bool(true)}))(t)
	c.wantLifecycles(t, "1: InService Terminating:Wait")
	c.wantState(t, first, "running")
	c.complete(t, types.LifecycleStateTerminatingWait, "drain", hookContinue)
	c.advance(2 * time.Minute)
	c.wantLifecycles(t, "1: InService")
	_, err := c.asg.CompleteLifecycleAction(t.Context(),
		&autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: sdk.String(testGroup), LifecycleHookName: name,
			LifecycleActionResult: sdk.String(hookContinue), InstanceId: &first})
	wantCode(t, err, refused, "ValidationError")

	second := *c.currentGroup(t).Instances[0].InstanceId
	ok(c.asg.TerminateInstanceInAutoScalingGroup(t.Context(),
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &second, ShouldDecrementDesiredCapacity: sdk.Bool(true)}))(t)
	c.wantLifecycles(t, "0: Terminating:Wait")
	ok(c.asg.DeleteLifecycleHook(t.Context(), &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: sdk.String(testGroup), LifecycleHookName: name}))(t)
	c.advance(2 * time.Minute)
	c.wantLifecycles(t, "0: ")
}
