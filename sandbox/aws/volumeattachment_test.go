package aws

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// inZone launches an instance in a zone.
func (c *testCloud) inZone(t *testing.T, zone string) string {
	t.Helper()
	return *c.run(t, 1, func(in *ec2.RunInstancesInput) { in.SubnetId = sdk.String("subnet-0000000000000000" + zone) })[0].InstanceId
}

// free makes a volume from a snapshot.
func (c *testCloud) free(t *testing.T, zone, snapshot string) string {
	t.Helper()
	v := ok(c.ec2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + zone), SnapshotId: &snapshot}))(t)
	c.advance(time.Minute)
	return *v.VolumeId
}

func (c *testCloud) attach(t *testing.T, volume, instance, device string) error {
	t.Helper()
	_, err := c.ec2.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance, Device: &device})
	return err
}

func (c *testCloud) volume(t *testing.T, id string) types.Volume {
	t.Helper()
	return ok(c.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}}))(t).Volumes[0]
}

// TestVolumeOfRunningInstance follows a volume: attaching, attached, detaching, available. The guest has the disk by its serial
// number, between.
func TestVolumeOfRunningInstance(t *testing.T) {
	c := newCloud(t, nil)
	i := c.inZone(t, "a")
	v := c.free(t, "a", c.shoot(t, i))
	want := func(state types.VolumeState, attachment types.VolumeAttachmentState, disks int) {
		t.Helper()
		got := c.volume(t, v)
		if got.State != state || len(got.Attachments) > 0 != (attachment != "") || attachment != "" && got.Attachments[0].State != attachment {
			t.Errorf("it is %s, %+v; want %s, %s", got.State, got.Attachments, state, attachment)
		}
		if further := c.fleet.Machine(i).Further; len(further) != disks || disks > 0 && further[0] != (fleet.Further{Disk: fleet.DiskID(v), Serial: serial(v)}) {
			t.Errorf("the guest has %+v", further)
		}
	}
	want("available", "", 0)
	made := ok(c.ec2.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: &v, InstanceId: &i, Device: sdk.String("/dev/sdf")}))(t)
	if made.State != types.VolumeAttachmentStateAttaching || sdk.ToBool(made.DeleteOnTermination) {
		t.Errorf("the answer is %+v", made)
	}
	want("in-use", "attaching", 0)
	c.advance(time.Minute)
	want("in-use", "attached", 1)
	if all := c.currentInstance(t, i).BlockDeviceMappings; len(all) != 2 || *all[0].DeviceName != "/dev/sdf" || all[0].Ebs.Status != types.AttachmentStatusAttached {
		t.Errorf("the instance shows %+v", all)
	}
	ok(c.ec2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: &v, InstanceId: &i}))(t)
	want("in-use", "detaching", 1)
	_, err := c.ec2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: &v})
	wantCode(t, err, refused, "IncorrectState")
	c.advance(time.Minute)
	want("available", "", 0)
	_, err = c.ec2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: &v})
	wantCode(t, err, refused, "IncorrectState")
}

// TestRefusedAttachments: EC2's refusals, which change nothing.
func TestRefusedAttachments(t *testing.T) {
	c := newCloud(t, func(config *Config) {
		config.Images = append(config.Images, Platform{ID: "ami-00000000000000001", Name: "sold", Content: "platform:x86", Codes: []string{"code"}})
	})
	i, there := c.inZone(t, "a"), c.inZone(t, "b")
	snapshot := c.shoot(t, i)
	v, used := c.free(t, "a", snapshot), c.free(t, "a", snapshot)
	if err := c.attach(t, used, i, "/dev/sdf"); err != nil {
		t.Fatal(err)
	}
	sold := *c.run(t, 1, func(in *ec2.RunInstancesInput) { in.ImageId = sdk.String("ami-00000000000000001") })[0].InstanceId
	ofSold := c.free(t, "a", c.shoot(t, sold))
	young := ok(c.ec2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + "a"), SnapshotId: &snapshot}))(t)
	gone := c.inZone(t, "a")
	ok(c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{gone}}))(t)
	for _, test := range []struct{ volume, instance, device, code string }{
		{"vol-00000000000000000", i, "/dev/sdg", "InvalidVolume.NotFound"},
		{v, "i-00000000000000000", "/dev/sdg", "InvalidInstanceID.NotFound"},
		{used, i, "/dev/sdg", "VolumeInUse"},
		{v, there, "/dev/sdg", "InvalidVolume.ZoneMismatch"},
		{v, i, "/dev/sdf", "InvalidParameterValue"},
		{v, i, "sdg!", "InvalidParameterValue"},
		{v, gone, "/dev/sdg", "IncorrectState"},
		{ofSold, i, "/dev/sdg", "OperationNotPermitted"},
	} {
		wantCode(t, c.attach(t, test.volume, test.instance, test.device), refused, test.code)
	}
	if got := c.volume(t, v); got.State != types.VolumeStateAvailable {
		t.Errorf("a refusal made it %s", got.State)
	}
	fresh := ok(c.ec2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + "a"), SnapshotId: &snapshot}))(t)
	wantCode(t, c.attach(t, *fresh.VolumeId, i, "/dev/sdh"), refused, "IncorrectState")
	_, err := c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: fresh.VolumeId})
	wantCode(t, err, refused, "IncorrectState")
	_, err = c.ec2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: fresh.VolumeId})
	wantCode(t, err, refused, "IncorrectState")
	_, err = c.ec2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: &used})
	wantCode(t, err, refused, "VolumeInUse")
	_, err = c.ec2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: sdk.String(root(c.currentInstance(t, there)))})
	wantCode(t, err, refused, "OperationNotPermitted")
	_, err = c.ec2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: &used, InstanceId: &there})
	wantCode(t, err, refused, "InvalidAttachment.NotFound")
	if *young.VolumeId == *fresh.VolumeId {
		t.Error("without a token, two requests made one volume")
	}
}

// TestRefusedVolumes: EC2's refusals of a volume from a snapshot.
func TestRefusedVolumes(t *testing.T) {
	c := newCloud(t, nil)
	i := c.inZone(t, "a")
	disk := root(c.currentInstance(t, i))
	young := *ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: &disk}))(t).SnapshotId
	create := func(change func(*ec2.CreateVolumeInput)) error {
		in := &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + "a"), SnapshotId: &young, ClientToken: sdk.String("t")}
		change(in)
		_, err := c.ec2.CreateVolume(t.Context(), in)
		return err
	}
	wantCode(t, create(func(*ec2.CreateVolumeInput) {}), refused, "IncorrectState")
	c.advance(10 * time.Minute)
	wantCode(t, create(func(in *ec2.CreateVolumeInput) { in.AvailabilityZone = sdk.String(testRegion + "z") }), refused, "InvalidZone.NotFound")
	wantCode(t, create(func(in *ec2.CreateVolumeInput) { in.VolumeType = "gp9" }), refused, "UnknownVolumeType")
	wantCode(t, create(func(in *ec2.CreateVolumeInput) { in.SnapshotId = sdk.String("snap-00000000000000000") }), refused, "InvalidSnapshot.NotFound")
	if err := create(func(*ec2.CreateVolumeInput) {}); err != nil {
		t.Error(err)
	}
	wantCode(t, create(func(in *ec2.CreateVolumeInput) { in.VolumeType = "gp3" }), refused, "IdempotentParameterMismatch")
}

// TestTooManyVolumes: an instance has room for some volumes only.
func TestTooManyVolumes(t *testing.T) {
	c := newCloud(t, nil)
	i := c.inZone(t, "a")
	snapshot := c.shoot(t, i)
	for n := range maxAttachments {
		v := c.free(t, "a", snapshot)
		err := c.attach(t, v, i, fmt.Sprintf("/dev/xvd%c%c", 'b'+n/26, 'a'+n%26))
		if n+1 < maxAttachments && err != nil {
			t.Fatal(err)
		}
		if n+1 == maxAttachments {
			wantCode(t, err, http.StatusBadRequest, "AttachmentLimitExceeded")
		}
	}
}

// TestBootWithAnotherRoot: an instance that boots with a copy of another root boots the copy. Its own root stays as it was.
func TestBootWithAnotherRoot(t *testing.T) {
	c := newCloud(t, nil)
	donor, i := c.inZone(t, "a"), c.inZone(t, "a")
	v := c.free(t, "a", c.shoot(t, donor))
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{i}}))(t)
	c.advance(time.Minute)
	if err := c.attach(t, v, i, "/dev/sdf"); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	ok(c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{i}}))(t)
	c.advance(time.Minute)
	if m := c.fleet.Machine(i); m.Booted != fleet.DiskID(v) || c.fleet.File(fleet.DiskID(v), "boots") != "2" {
		t.Errorf("it booted from %s", m.Booted)
	}
	ok(c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{i}}))(t)
	c.advance(10 * time.Minute)
	if got := c.volume(t, v); got.State != types.VolumeStateAvailable {
		t.Errorf("after its instance, the volume is %s", got.State)
	}
}

// TestSnapshotOfARunningInstance: the moment of the snapshot is the request. What the instance writes after the answer is not in it.
func TestSnapshotOfARunningInstance(t *testing.T) {
	c := newCloud(t, nil)
	disk := root(c.currentInstance(t, c.inZone(t, "a")))
	c.fleet.WriteFile(fleet.DiskID(disk), "log", "before")
	c.fleet.Before = func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil } // a large disk
	snap := ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: &disk}))(t)
	c.fleet.WriteFile(fleet.DiskID(disk), "log", "after")
	if snap.State != types.SnapshotStatePending {
		t.Errorf("it is %s", snap.State)
	}
	c.advance(10 * time.Minute)
	if got := c.fleet.File(fleet.DiskID(c.free(t, "a", *snap.SnapshotId)), "log"); got != "before" {
		t.Errorf("the volume from it has %q", got)
	}
}
