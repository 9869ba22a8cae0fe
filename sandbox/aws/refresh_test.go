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

// bump makes a second version of the group's template.
func (c *testCloud) bump(t *testing.T, id string) *types.LaunchTemplateSpecification {
	t.Helper()
	ok(c.ec2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &id, SourceVersion: sdk.String("1"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{KeyName: sdk.String("second")}}))(t)
	return &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: sdk.String("2")}
}

// refresh is the group's latest refresh.
func (c *testCloud) refresh(t *testing.T) types.InstanceRefresh {
	t.Helper()
	return ok(c.asg.DescribeInstanceRefreshes(t.Context(),
		&autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: sdk.String(testGroup)}))(t).InstanceRefreshes[0]
}

// versions counts the group's instances by version.
func (c *testCloud) versions(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, i := range c.currentGroup(t).Instances {
		out[*i.LaunchTemplate.Version]++
	}
	return out
}

func TestRefreshReplacesSequentially(t *testing.T) {
	c := newCloud(t, nil)
	next := c.bump(t, c.group(t, 3, nil))
	start := &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup),
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: next},
		Preferences:          &types.RefreshPreferences{SkipMatching: sdk.Bool(true), BakeTime: sdk.Int32(600)}}
	ok(c.asg.StartInstanceRefresh(t.Context(), start))(t)
	_, err := c.asg.StartInstanceRefresh(t.Context(), start)
	wantCode(t, err, refused, "InstanceRefreshInProgress")
	c.advance(30 * time.Second)
	if got := c.refresh(t); got.Status != types.InstanceRefreshStatusInProgress || c.versions(t)["1"] != 3 && c.versions(t)["1"] != 2 {
		t.Errorf("refresh is %s, versions %v: want one instance at a time", got.Status, c.versions(t))
	}
	for range 20 {
		c.advance(time.Minute)
		if c.refresh(t).Status == types.InstanceRefreshStatusBaking {
			break
		}
	}
	if got := c.refresh(t); got.Status != types.InstanceRefreshStatusBaking || c.versions(t)["2"] != 3 {
		t.Fatalf("refresh is %s, versions %v", got.Status, c.versions(t))
	}
	if *c.currentGroup(t).LaunchTemplate.Version != "1" {
		t.Error("the group names the new version before the refresh is over")
	}
	c.advance(11 * time.Minute)
	got := c.refresh(t)
	if got.Status != types.InstanceRefreshStatusSuccessful || *got.PercentageComplete != 100 || *c.currentGroup(t).LaunchTemplate.Version != "2" {
		t.Errorf("refresh is %s at %d %%, the group at %s", got.Status, *got.PercentageComplete, *c.currentGroup(t).LaunchTemplate.Version)
	}
	c.wantLifecycles(t, "3: InService InService InService")
	if rolled := c.UpgradedByCloud(); len(rolled) != 3 {
		t.Errorf("rolled were %v, want three", rolled)
	}
}

func TestRefreshCancelled(t *testing.T) {
	c := newCloud(t, nil)
	c.bump(t, c.group(t, 2, nil))
	cancel := &autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup)}
	_, err := c.asg.CancelInstanceRefresh(t.Context(), cancel)
	wantCode(t, err, refused, "ActiveInstanceRefreshNotFound")
	ok(c.asg.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup)}))(t)
	c.advance(time.Second)
	ok(c.asg.CancelInstanceRefresh(t.Context(), cancel))(t)
	if got := c.refresh(t); got.Status != types.InstanceRefreshStatusCancelling {
		t.Errorf("refresh is %s", got.Status)
	}
	c.advance(5 * time.Minute)
	if got := c.refresh(t); got.Status != types.InstanceRefreshStatusCancelled || got.EndTime == nil {
		t.Errorf("refresh is %s", got.Status)
	}
	c.wantLifecycles(t, "2: InService InService")
}

// TestRefreshWaitsForStandby: a refresh waits for instances in standby, unless the request ignores them.
func TestRefreshWaitsForStandby(t *testing.T) {
	for preference, want := range map[types.StandbyInstances]types.InstanceRefreshStatus{
		types.StandbyInstancesWait: types.InstanceRefreshStatusInProgress, types.StandbyInstancesIgnore: types.InstanceRefreshStatusSuccessful,
		types.StandbyInstancesTerminate: types.InstanceRefreshStatusSuccessful,
	} {
		c := newCloud(t, nil)
		next := c.bump(t, c.group(t, 2, nil))
		id := *c.currentGroup(t).Instances[0].InstanceId
		if err := c.enter(t, id, true); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Minute)
		ok(c.asg.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup),
			DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: next}, Preferences: &types.RefreshPreferences{StandbyInstances: preference}}))(t)
		c.advance(time.Hour)
		if got := c.refresh(t); got.Status != want {
			t.Errorf("%s: refresh is %s (%s), want %s", preference, got.Status, sdk.ToString(got.StatusReason), want)
		}
		if there := c.member(t, id) != nil; there != (preference != types.StandbyInstancesTerminate) {
			t.Errorf("%s: the instance in standby is there: %v", preference, there)
		}
	}
}

func TestRefreshRollback(t *testing.T) {
	c := newCloud(t, nil)
	next := c.bump(t, c.group(t, 3, nil))
	ok(c.asg.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup),
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: next}}))(t)
	for c.versions(t)["2"] == 0 {
		c.advance(time.Minute)
	}
	ok(c.asg.RollbackInstanceRefresh(t.Context(), &autoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup)}))(t)
	if got := c.refresh(t); got.Status != types.InstanceRefreshStatusRollbackInProgress {
		t.Errorf("refresh is %s", got.Status)
	}
	c.advance(time.Hour)
	if got := c.refresh(t); got.Status != types.InstanceRefreshStatusRollbackSuccessful || c.versions(t)["1"] != 3 {
		t.Errorf("refresh is %s, versions %v", got.Status, c.versions(t))
	}
}

func TestWarmPool(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 1, func(in *autoscaling.CreateAutoScalingGroupInput) { in.MaxSize = sdk.Int32(3) })
	ok(c.asg.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup), MinSize: sdk.Int32(1)}))(t)
	c.advance(5 * time.Minute)
	pool := func() *autoscaling.DescribeWarmPoolOutput {
		return ok(c.asg.DescribeWarmPool(t.Context(), &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup)}))(t)
	}
	warm := pool()
	if len(warm.Instances) != 2 || warm.Instances[0].LifecycleState != types.LifecycleStateWarmedStopped || *warm.WarmPoolConfiguration.MinSize != 1 {
		t.Fatalf("pool is %+v", warm)
	}
	c.wantLifecycles(t, "1: InService")
	if g := c.currentGroup(t); g.WarmPoolConfiguration == nil || *g.WarmPoolSize != 2 {
		t.Error("the group does not show its warm pool")
	}
	id := *warm.Instances[0].InstanceId
	c.wantState(t, id, ec2types.InstanceStateNameStopped)
	wantCode(t, c.protect(t, id, true), refused, "ValidationError")
	// The next node comes from the warm pool, even if the template has changed.
	ok(c.asg.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(testGroup),
			LaunchTemplate: c.bump(t, *c.currentGroup(t).LaunchTemplate.LaunchTemplateId)}))(t)
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(2)}))(t)
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "2: InService InService")
	if got := c.member(t, id); got.LaunchTemplate == nil || *got.LaunchTemplate.Version != "1" || *got.LifecycleState != "InService" {
		t.Errorf("from the pool came %+v", got)
	}
	remove := &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup)}
	_, err := c.asg.DeleteWarmPool(t.Context(), remove)
	wantCode(t, err, refused, "ResourceInUse")
	remove.ForceDelete = sdk.Bool(true)
	ok(c.asg.DeleteWarmPool(t.Context(), remove))(t)
	c.advance(5 * time.Minute)
	if warm := pool(); len(warm.Instances) != 0 || warm.WarmPoolConfiguration != nil || c.fleet.Size() != 2 {
		t.Errorf("pool is %+v, %d machines", warm, c.fleet.Size())
	}
}

// TestWarmPoolBecomesSmaller: AWS ends surplus instances of the warm pool, and no node: also not the instance that has just left the warm
// pool. Larger again, the warm pool gets instances of the template. A refused request changes nothing.
func TestWarmPoolBecomesSmaller(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 1, func(in *autoscaling.CreateAutoScalingGroupInput) { in.MaxSize = sdk.Int32(6) })
	put := func(least, prepared int32) {
		ok(c.asg.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup), MinSize: sdk.Int32(least),
			MaxGroupPreparedCapacity: sdk.Int32(prepared), PoolState: types.WarmPoolStateStopped}))(t)
	}
	pool := func() (ids []string) {
		out := ok(c.asg.DescribeWarmPool(t.Context(), &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup)}))(t)
		for _, m := range out.Instances {
			if m.LifecycleState == types.LifecycleStateWarmedStopped {
				ids = append(ids, *m.InstanceId)
			}
		}
		return ids
	}
	put(0, -1)
	c.advance(5 * time.Minute)
	before := pool()
	if len(before) != 5 {
		t.Fatalf("the warm pool has %v", before)
	}
	// The group takes instances between the look and the request.
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(3)}))(t)
	put(0, 4)
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "3: InService InService InService")
	if got := pool(); len(got) != 1 {
		t.Errorf("the smaller warm pool has %v", got)
	}
	put(2, -1)
	c.advance(5 * time.Minute)
	if got := pool(); len(got) != 3 {
		t.Errorf("the larger warm pool has %v", got)
	}
	_, err := c.asg.TerminateInstanceInAutoScalingGroup(t.Context(), &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: sdk.String(pool()[0]), ShouldDecrementDesiredCapacity: sdk.Bool(false)})
	wantCode(t, err, refused, "ValidationError")
}

// TestWarmPoolReuses: with ReuseOnScaleIn, an instance that leaves the group returns to the warm pool.
func TestWarmPoolReuses(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize, in.MaxSize = sdk.Int32(1), sdk.Int32(2) })
	ok(c.asg.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup),
		InstanceReusePolicy: &types.InstanceReusePolicy{ReuseOnScaleIn: sdk.Bool(true)}, PoolState: types.WarmPoolStateHibernated}))(t)
	c.advance(5 * time.Minute)
	ok(c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(1)}))(t)
	c.advance(5 * time.Minute)
	c.wantLifecycles(t, "1: InService")
	out := ok(c.asg.DescribeWarmPool(t.Context(), &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: sdk.String(testGroup)}))(t)
	if len(out.Instances) != 1 || out.Instances[0].LifecycleState != types.LifecycleStateWarmedHibernated || c.fleet.Size() != 2 ||
		!*out.WarmPoolConfiguration.InstanceReusePolicy.ReuseOnScaleIn {
		t.Errorf("the warm pool is %+v, %d machines", out.Instances, c.fleet.Size())
	}
}
