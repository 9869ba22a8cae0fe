package aws

import (
	"net/http"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

func TestInstanceLifecycle(t *testing.T) {
	c := newCloud(t, nil)
	n := int32(1)
	out := ok(c.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: &n, MaxCount: &n,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: sdk.String("Name"), Value: sdk.String("one")}}}}}))(t)
	id := *out.Instances[0].InstanceId
	c.wantState(t, id, types.InstanceStateNamePending)
	if c.fleet.Size() != 0 {
		t.Error("the machine is there before its time")
	}
	c.advance(20 * time.Second)
	i := c.currentInstance(t, id)
	if i.State.Name != types.InstanceStateNameRunning || *i.State.Code != 16 || c.fleet.Machine(id).Power != fleet.On {
		t.Fatalf("instance is %v, its machine %v, want both to run", i.State, c.fleet.Machine(id).Power)
	}
	if len(i.Tags) != 1 || *i.Tags[0].Value != "one" || *i.RootDeviceName != "/dev/xvda" || i.Architecture != types.ArchitectureValuesX8664 ||
		*i.Placement.AvailabilityZone != testRegion+"a" {
		t.Errorf("instance is %+v", i)
	}
	disk := fleet.DiskID(root(i))
	if c.fleet.File(disk, "origin") != "platform:x86" {
		t.Error("its disk is not a copy of the image's")
	}
	if want := "aws:///" + testRegion + "a/" + id; c.fleet.Machine(id).Spec.ProviderID != want {
		t.Errorf("provider ID is %s, want %s", c.fleet.Machine(id).Spec.ProviderID, want)
	}

	stopped := ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	if ch := stopped.StoppingInstances[0]; ch.PreviousState.Name != types.InstanceStateNameRunning || ch.CurrentState.Name != types.InstanceStateNameStopping {
		t.Errorf("stopping went from %s to %s", ch.PreviousState.Name, ch.CurrentState.Name)
	}
	c.advance(10 * time.Second)
	c.wantState(t, id, types.InstanceStateNameStopping)
	c.advance(time.Minute)
	i = c.currentInstance(t, id)
	if i.State.Name != types.InstanceStateNameStopped || *i.StateReason.Code != "Client.UserInitiatedShutdown" || c.fleet.Machine(id).Power != fleet.Off {
		t.Errorf("instance is %s for %v, its machine %v, want both to be stopped", i.State.Name, i.StateReason, c.fleet.Machine(id).Power)
	}
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}))(t) // twice is as good as once
	ok(c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}))(t)
	c.advance(time.Minute)
	c.wantState(t, id, types.InstanceStateNameRunning)
	if boots := c.fleet.Machine(id).Boots; boots != 2 {
		t.Errorf("the machine has booted %d times, want 2", boots)
	}

	ok(c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	c.advance(time.Minute)
	c.wantState(t, id, types.InstanceStateNameTerminated)
	if c.fleet.Size() != 0 || c.fleet.HasDisk(disk) {
		t.Error("machine or disk are there after the end")
	}
	_, err := c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, refused, "IncorrectInstanceState")
	ok(c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	c.advance(2 * time.Hour)
	_, err = c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, refused, "InvalidInstanceID.NotFound")
}

func TestGuestPowerOff(t *testing.T) {
	c := newCloud(t, nil)
	for behaviour, want := range map[types.ShutdownBehavior]types.InstanceStateName{
		types.ShutdownBehaviorStop: types.InstanceStateNameStopped, types.ShutdownBehaviorTerminate: types.InstanceStateNameTerminated,
	} {
		i := c.run(t, 1, func(in *ec2.RunInstancesInput) { in.InstanceInitiatedShutdownBehavior = behaviour })[0]
		got := ok(c.ec2.DescribeInstanceAttribute(t.Context(),
			&ec2.DescribeInstanceAttributeInput{InstanceId: i.InstanceId, Attribute: types.InstanceAttributeNameInstanceInitiatedShutdownBehavior}))(t)
		if *got.InstanceInitiatedShutdownBehavior.Value != string(behaviour) {
			t.Errorf("behaviour is %s, want %s", *got.InstanceInitiatedShutdownBehavior.Value, behaviour)
		}
		if err := c.Shutdown(t.Context(), *i.InstanceId); err != nil {
			t.Fatal(err)
		}
		c.advance(2 * time.Minute)
		after := c.currentInstance(t, *i.InstanceId)
		if after.State.Name != want || *after.StateReason.Code != "Client.InstanceInitiatedShutdown" {
			t.Errorf("with %s it is %s for %s, want %s", behaviour, after.State.Name, *after.StateReason.Code, want)
		}
	}
}

func TestStopAndTerminationProtection(t *testing.T) {
	c := newCloud(t, nil)
	i := c.run(t, 1, func(in *ec2.RunInstancesInput) { in.DisableApiStop = sdk.Bool(true) })[0]
	ids := []string{*i.InstanceId}
	got := ok(c.ec2.DescribeInstanceAttribute(t.Context(),
		&ec2.DescribeInstanceAttributeInput{InstanceId: i.InstanceId, Attribute: types.InstanceAttributeNameDisableApiStop}))(t)
	if !*got.DisableApiStop.Value {
		t.Error("disableApiStop does not show")
	}
	_, err := c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids})
	wantCode(t, err, refused, "OperationNotPermitted")
	ok(c.ec2.ModifyInstanceAttribute(t.Context(),
		&ec2.ModifyInstanceAttributeInput{InstanceId: i.InstanceId, DisableApiStop: &types.AttributeBooleanValue{Value: sdk.Bool(false)}}))(t)
	ok(c.ec2.ModifyInstanceAttribute(t.Context(),
		&ec2.ModifyInstanceAttributeInput{InstanceId: i.InstanceId, DisableApiTermination: &types.AttributeBooleanValue{Value: sdk.Bool(true)}}))(t)
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids}))(t)
	_, err = c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids})
	wantCode(t, err, refused, "OperationNotPermitted")
	c.advance(time.Minute)
	c.wantState(t, *i.InstanceId, types.InstanceStateNameStopped)
}

func TestClientToken(t *testing.T) {
	c := newCloud(t, nil)
	n := int32(2)
	in := &ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: &n, MaxCount: &n, ClientToken: sdk.String("once")}
	first := ok(c.ec2.RunInstances(t.Context(), in))(t)
	c.advance(time.Minute)
	again := ok(c.ec2.RunInstances(t.Context(), in))(t)
	if *again.ReservationId != *first.ReservationId || len(again.Instances) != 2 || *again.Instances[0].InstanceId != *first.Instances[0].InstanceId ||
		again.Instances[0].State.Name != types.InstanceStateNameRunning {
		t.Errorf("the same token gave %+v", again)
	}
	in.InstanceType = "m6i.xlarge"
	_, err := c.ec2.RunInstances(t.Context(), in)
	wantCode(t, err, refused, "IdempotentParameterMismatch")
	in.ClientToken = sdk.String("twice")
	ok(c.ec2.RunInstances(t.Context(), in))(t)
	c.advance(time.Minute)
	if c.fleet.Size() != 4 {
		t.Errorf("%d machines run, want 2 for each token", c.fleet.Size())
	}
	got := ok(c.ec2.DescribeInstances(t.Context(),
		&ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: sdk.String("client-token"), Values: []string{"once"}}}}))(t)
	if len(got.Reservations) != 1 || len(got.Reservations[0].Instances) != 2 {
		t.Errorf("by its token is found %+v", got.Reservations)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	c := newCloud(t, nil)
	n := int32(1)
	_, err := c.ec2.RunInstances(t.Context(),
		&ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: &n, MaxCount: &n, DryRun: sdk.Bool(true)})
	wantCode(t, err, http.StatusPreconditionFailed, "DryRunOperation")
	c.advance(time.Minute)
	if got := ok(c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}))(t); len(got.Reservations) != 0 || c.fleet.Size() != 0 {
		t.Error("something runs")
	}
}

func TestRefusedLaunches(t *testing.T) {
	c := newCloud(t, nil)
	n := int32(1)
	for name, try := range map[string]struct {
		change func(*ec2.RunInstancesInput)
		code   string
	}{
		"an image that is not there":  {func(in *ec2.RunInstancesInput) { in.ImageId = sdk.String("ami-00000000000000000") }, "InvalidAMIID.NotFound"},
		"an image for other machines": {func(in *ec2.RunInstancesInput) { in.ImageId = sdk.String(testArm) }, "InvalidParameterValue"},
		"no image":                    {func(in *ec2.RunInstancesInput) { in.ImageId = nil }, "MissingParameter"},
		"a subnet that is not there":  {func(in *ec2.RunInstancesInput) { in.SubnetId = sdk.String("subnet-1") }, "InvalidSubnetID.NotFound"},
		"fewer than none":             {func(in *ec2.RunInstancesInput) { in.MinCount = sdk.Int32(0) }, "InvalidParameterValue"},
		"a tag of AWS's own": {func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{{Key: sdk.String("aws:x"), Value: sdk.String("")}}}}
		}, "InvalidParameterValue"},
		"a disk that is too small": {func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{VolumeSize: sdk.Int32(8)}}}
		}, "InvalidBlockDeviceMapping"},
	} {
		in := &ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: &n, MaxCount: &n}
		try.change(in)
		_, err := c.ec2.RunInstances(t.Context(), in)
		t.Log(name)
		wantCode(t, err, refused, try.code)
	}
	i := c.run(t, 1, func(in *ec2.RunInstancesInput) { in.ImageId, in.InstanceType = sdk.String(testArm), "m7g.large" })[0]
	c.wantState(t, *i.InstanceId, types.InstanceStateNameRunning)
}

func TestCapacityRunsOut(t *testing.T) {
	c := newCloud(t, nil)
	i := c.run(t, 1, nil)[0]
	ids := []string{*i.InstanceId}
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids}))(t)
	c.advance(time.Minute)
	if err := c.Exhaust(testType + "/" + testRegion + "a"); err != nil {
		t.Fatal(err)
	}
	_, err := c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: ids})
	wantCode(t, err, http.StatusInternalServerError, "InsufficientInstanceCapacity")
	c.wantState(t, ids[0], types.InstanceStateNameStopped)
	other := c.run(t, 1, func(in *ec2.RunInstancesInput) { in.SubnetId = &c.world.config.Subnets[1].ID })[0]
	c.wantState(t, *other.InstanceId, types.InstanceStateNameRunning)
	if err := c.Exhaust(); err != nil {
		t.Fatal(err)
	}
	ok(c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: ids}))(t)
	c.advance(time.Minute)
	c.wantState(t, ids[0], types.InstanceStateNameRunning)
}

// TestReplaceRootVolume: the instance keeps its ID and address.
func TestReplaceRootVolume(t *testing.T) {
	c := newCloud(t, nil)
	donor, other := c.run(t, 1, nil)[0], c.run(t, 1, nil)[0]
	c.fleet.WriteFile(fleet.DiskID(root(c.currentInstance(t, *donor.InstanceId))), "made", "by hand")
	snap := c.shoot(t, *donor.InstanceId)
	before := c.currentInstance(t, *other.InstanceId)
	in := &ec2.CreateReplaceRootVolumeTaskInput{InstanceId: other.InstanceId, SnapshotId: &snap, DeleteReplacedRootVolume: sdk.Bool(true),
		ClientToken: sdk.String("t")}
	task := ok(c.ec2.CreateReplaceRootVolumeTask(t.Context(), in))(t).ReplaceRootVolumeTask
	if again := ok(c.ec2.CreateReplaceRootVolumeTask(t.Context(),
		in))(t); *again.ReplaceRootVolumeTask.ReplaceRootVolumeTaskId != *task.ReplaceRootVolumeTaskId {
		t.Error("the same token made another task")
	}
	c.advance(5 * time.Minute)
	tasks := ok(c.ec2.DescribeReplaceRootVolumeTasks(t.Context(),
		&ec2.DescribeReplaceRootVolumeTasksInput{ReplaceRootVolumeTaskIds: []string{*task.ReplaceRootVolumeTaskId}}))(t)
	after := c.currentInstance(t, *other.InstanceId)
	if state := tasks.ReplaceRootVolumeTasks[0].TaskState; state != types.ReplaceRootVolumeTaskStateSucceeded {
		t.Fatalf("task is %s", state)
	}
	if root(after) == root(before) || *after.PrivateIpAddress != *before.PrivateIpAddress || c.fleet.File(fleet.DiskID(root(after)), "made") != "by hand" ||
		c.fleet.HasDisk(fleet.DiskID(root(before))) || c.fleet.Machine(*other.InstanceId).Boots != 2 {
		t.Error("the instance has not another root in the old one's place")
	}
	if rolled := c.UpgradedByCloud(); !slices.Equal(rolled, []string{*other.InstanceId}) {
		t.Errorf("rolled were %v, want %s", rolled, *other.InstanceId)
	}
}
