package aws

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// like returns the settings that an image needs to boot on current instance types.
func like(name, snapshot string) *ec2.RegisterImageInput {
	return &ec2.RegisterImageInput{Name: &name, Architecture: types.ArchitectureValuesX8664, VirtualizationType: sdk.String("hvm"), EnaSupport: sdk.Bool(true),
		RootDeviceName: sdk.String("/dev/xvda"), BootMode: types.BootModeValuesUefiPreferred, ImdsSupport: types.ImdsSupportValuesV20,
		SriovNetSupport: sdk.String("simple"),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"),
			Ebs: &types.EbsBlockDevice{SnapshotId: &snapshot, VolumeType: types.VolumeTypeGp3}}}}
}

func (c *testCloud) image(t *testing.T, id string) types.Image {
	t.Helper()
	return ok(c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{id}}))(t).Images[0]
}

// register creates an image from a snapshot and waits for the image.
func (c *testCloud) register(t *testing.T, name, snapshot string) string {
	t.Helper()
	out := ok(c.ec2.RegisterImage(t.Context(), like(name, snapshot)))(t)
	c.advance(time.Minute)
	return *out.ImageId
}

// TestCloneOfDonor: a snapshot has the content of the moment of its request, and an instance of its image boots
// with this content.
func TestCloneOfDonor(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	disk := fleet.DiskID(root(c.currentInstance(t, *donor.InstanceId)))
	c.fleet.WriteFile(disk, "layers", "cached")
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{*donor.InstanceId}}))(t)
	c.advance(time.Minute)
	snap := ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: sdk.String(string(disk)), Description: sdk.String("d"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot,
			Tags: []types.Tag{{Key: sdk.String("for"), Value: sdk.String("2026.11.22")}}}}}))(t)
	if snap.State != types.SnapshotStatePending || *snap.VolumeSize != 20 {
		t.Errorf("snapshot is %s of %d GiB", snap.State, *snap.VolumeSize)
	}
	c.rest()
	c.fleet.WriteFile(disk, "layers", "after")
	_, err := c.ec2.RegisterImage(t.Context(), like("early", *snap.SnapshotId))
	wantCode(t, err, refused, "InvalidSnapshot.NotReady")
	c.advance(2 * time.Minute)
	byTag := &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"},
		Filters: []types.Filter{{Name: sdk.String("tag:for"), Values: []string{"2026.*"}}, {Name: sdk.String("volume-id"), Values: []string{string(disk)}}}}
	found := ok(c.ec2.DescribeSnapshots(t.Context(), byTag))(t).Snapshots
	if len(found) != 1 || found[0].State != types.SnapshotStatePending || *found[0].Progress == "0%" || *found[0].Progress == "100%" {
		t.Fatalf("by tag and volume is found %+v", found)
	}
	c.advance(5 * time.Minute)
	if found = ok(c.ec2.DescribeSnapshots(t.Context(), byTag))(t).Snapshots; found[0].State != types.SnapshotStateCompleted || *found[0].Progress != "100%" {
		t.Fatalf("after its time it is %s, %s", found[0].State, *found[0].Progress)
	}
	// A repeated call creates a second snapshot, because the API has no client token.
	ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: sdk.String(string(disk))}))(t)
	if all := ok(c.ec2.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}))(t).Snapshots; len(all) != 2 {
		t.Errorf("%d snapshots are there, want 2", len(all))
	}
	image := c.register(t, "copy", *snap.SnapshotId)
	if got := c.image(t, image); got.State != types.ImageStateAvailable || !*got.EnaSupport || got.BootMode != types.BootModeValuesUefiPreferred ||
		*got.OwnerId != testAccount {
		t.Errorf("image is %+v", got)
	}
	clone := c.run(t, 1, func(in *ec2.RunInstancesInput) { in.ImageId = &image })[0]
	if got := c.fleet.File(fleet.DiskID(root(c.currentInstance(t, *clone.InstanceId))), "layers"); got != "cached" {
		t.Errorf("the clone has %q on its disk, want what was there when the snapshot was asked for", got)
	}
}

// TestStartDuringPendingSnapshot: later writes do not change the snapshot, however long the fleet copies the disk.
func TestStartDuringPendingSnapshot(t *testing.T) {
	for name, goes := range map[string]func(*testCloud, string) error{
		"started": func(c *testCloud, id string) error {
			_, err := c.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
			return err
		},
		"terminated": func(c *testCloud, id string) error {
			_, err := c.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, nil)
			donor := c.run(t, 1, nil)[0]
			disk := fleet.DiskID(root(c.currentInstance(t, *donor.InstanceId)))
			c.fleet.WriteFile(disk, "layers", "cached")
			c.fleet.WriteFile(disk, "boots", "1")
			ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{*donor.InstanceId}}))(t)
			c.advance(time.Minute)
			copying := make(chan struct{})
			c.fleet.Before = func(context.Context) error { <-copying; return nil }
			snap := ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: sdk.String(string(disk))}))(t)
			if err := goes(c, *donor.InstanceId); err != nil {
				t.Fatal(err)
			}
			c.calendar.Skip(2 * time.Minute)
			c.world.advance()
			for range 1000 {
				runtime.Gosched() // due work would be done now
			}
			close(copying)
			c.advance(5 * time.Minute)
			copied := fleet.DiskID(*snap.SnapshotId)
			if layers, boots := c.fleet.File(copied, "layers"), c.fleet.File(copied, "boots"); layers != "cached" || boots != "1" {
				t.Errorf("the snapshot holds %q, and boot %q", layers, boots)
			}
		})
	}
}

// TestRegisterImageDefaults: the defaults are i386, paravirtual and no enhanced networking.
func TestRegisterImageDefaults(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	snap := c.shoot(t, *donor.InstanceId)
	bare := ok(c.ec2.RegisterImage(t.Context(),
		&ec2.RegisterImageInput{Name: sdk.String("bare"), RootDeviceName: sdk.String("/dev/xvda"), BlockDeviceMappings: like("", snap).BlockDeviceMappings}))(t)
	c.advance(time.Minute)
	got := c.image(t, *bare.ImageId)
	if got.Architecture != types.ArchitectureValuesI386 || got.VirtualizationType != types.VirtualizationTypeParavirtual || *got.EnaSupport ||
		got.BootMode != "" || got.ImdsSupport != "" {
		t.Errorf("defaults are %+v", got)
	}
	for name, forget := range map[string]func(*ec2.RegisterImageInput){
		"no architecture": func(in *ec2.RegisterImageInput) { in.Architecture = "" },
		"no ENA":          func(in *ec2.RegisterImageInput) { in.EnaSupport = nil },
		"no virtualization": func(in *ec2.RegisterImageInput) {
			in.VirtualizationType, in.EnaSupport, in.SriovNetSupport = nil, nil, nil
		},
	} {
		in := like(name, snap)
		forget(in)
		out := ok(c.ec2.RegisterImage(t.Context(), in))(t)
		c.advance(time.Minute)
		_, err := c.ec2.RunInstances(t.Context(),
			&ec2.RunInstancesInput{ImageId: out.ImageId, InstanceType: testType, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
		if err == nil || !strings.Contains(err.Error(), "InvalidParameter") {
			t.Errorf("%s: an instance runs: %v", name, err)
		}
	}
	for name, wrong := range map[string]struct {
		change func(*ec2.RegisterImageInput)
		code   string
	}{
		"a name with a colon":  {func(in *ec2.RegisterImageInput) { in.Name = sdk.String("a:b") }, "InvalidAMIName.Malformed"},
		"a name that is taken": {func(in *ec2.RegisterImageInput) { in.Name = sdk.String("bare") }, "InvalidAMIName.Duplicate"},
		"no root":              {func(in *ec2.RegisterImageInput) { in.RootDeviceName = nil }, "MissingParameter"},
		"another root":         {func(in *ec2.RegisterImageInput) { in.RootDeviceName = sdk.String("/dev/sda1") }, "InvalidBlockDeviceMapping"},
		"encryption that is said": {func(in *ec2.RegisterImageInput) { in.BlockDeviceMappings[0].Ebs.Encrypted = sdk.Bool(false) },
			"InvalidParameterCombination"},
		"no such snapshot": {func(in *ec2.RegisterImageInput) { in.BlockDeviceMappings[0].Ebs.SnapshotId = sdk.String("snap-0") },
			"InvalidSnapshot.NotFound"},
		"a rate that is too low": {func(in *ec2.RegisterImageInput) {
			in.BlockDeviceMappings[0].Ebs.VolumeInitializationRate = sdk.Int32(50)
		}, "InvalidParameterValue"},
	} {
		in := like("good", snap)
		wrong.change(in)
		_, err := c.ec2.RegisterImage(t.Context(), in)
		t.Log(name)
		wantCode(t, err, refused, wrong.code)
	}
}

// TestImageKeepsItsSnapshot: the snapshot of an image can be deleted only after the image is deregistered.
func TestImageKeepsItsSnapshot(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	snap := c.shoot(t, *donor.InstanceId)
	first, second := c.register(t, "first", snap), c.register(t, "second", snap)
	remove := &ec2.DeleteSnapshotInput{SnapshotId: &snap}
	_, err := c.ec2.DeleteSnapshot(t.Context(), remove)
	wantCode(t, err, refused, "InvalidSnapshot.InUse")
	out := ok(c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &first, DeleteAssociatedSnapshots: sdk.Bool(true)}))(t)
	if len(out.DeleteSnapshotResults) != 1 || out.DeleteSnapshotResults[0].ReturnCode != types.SnapshotReturnCodesWarnSkipped {
		t.Errorf("snapshots went: %+v, while another image is backed by it", out.DeleteSnapshotResults)
	}
	if !c.fleet.HasDisk(fleet.DiskID(snap)) {
		t.Fatal("its content is gone")
	}
	out = ok(c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &second, DeleteAssociatedSnapshots: sdk.Bool(true)}))(t)
	if out.DeleteSnapshotResults[0].ReturnCode != types.SnapshotReturnCodesSuccess {
		t.Errorf("snapshots went: %+v", out.DeleteSnapshotResults)
	}
	c.rest()
	_, err = c.ec2.DeleteSnapshot(t.Context(), remove)
	wantCode(t, err, refused, "InvalidSnapshot.NotFound")
	if c.fleet.HasDisk(fleet.DiskID(snap)) {
		t.Error("its content is still there")
	}
	// A deregistered image can still be read by its ID, but its name is free.
	if got := c.image(t, second); got.State != "deregistered" {
		t.Errorf("image is %s", got.State)
	}
	if all := ok(c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}}))(t).Images; len(all) != 0 {
		t.Errorf("%d images are listed", len(all))
	}
	c.register(t, "second", c.shoot(t, *donor.InstanceId))
	c.advance(2 * time.Hour)
	_, err = c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{second}})
	wantCode(t, err, refused, "InvalidAMIID.NotFound")
}

func TestDeregistrationIsForbidden(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	id := c.register(t, "kept", c.shoot(t, *donor.InstanceId))
	ok(c.ec2.EnableImageDeregistrationProtection(t.Context(), &ec2.EnableImageDeregistrationProtectionInput{ImageId: &id}))(t)
	_, err := c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &id})
	wantCode(t, err, refused, "OperationNotPermitted")
	ok(c.ec2.DisableImageDeregistrationProtection(t.Context(), &ec2.DisableImageDeregistrationProtectionInput{ImageId: &id}))(t)
	ok(c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &id}))(t)
	_, err = c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &id})
	wantCode(t, err, refused, "InvalidAMIID.Unavailable")
	_, err = c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: sdk.String(testImage)})
	wantCode(t, err, refused, "AuthFailure")
}

// TestCreateImage: the image has all properties of the instance. The instance reboots unless NoReboot is set.
func TestCreateImage(t *testing.T) {
	c := newCloud(t, nil)
	i := c.run(t, 1, nil)[0]
	image := func(name string, noReboot bool) string {
		out := ok(c.ec2.CreateImage(t.Context(), &ec2.CreateImageInput{InstanceId: i.InstanceId, Name: &name, NoReboot: &noReboot}))(t)
		return *out.ImageId
	}
	first := image("first", true)
	c.advance(2 * time.Minute)
	got := c.image(t, first)
	if got.State != types.ImageStatePending || *got.SourceInstanceId != *i.InstanceId {
		t.Errorf("before its snapshot is complete the image is %s of %s", got.State, *got.SourceInstanceId)
	}
	c.advance(10 * time.Minute)
	if got = c.image(t, first); got.State != types.ImageStateAvailable || got.Architecture != types.ArchitectureValuesX8664 || !*got.EnaSupport ||
		got.BootMode != types.BootModeValuesUefiPreferred {
		t.Errorf("image is %+v", got)
	}
	if boots := c.fleet.Machine(*i.InstanceId).Boots; boots != 1 {
		t.Errorf("the machine has booted %d times though it was not to", boots)
	}
	image("second", false)
	c.advance(10 * time.Minute)
	if boots := c.fleet.Machine(*i.InstanceId).Boots; boots != 2 {
		t.Errorf("the machine has booted %d times, want a second", boots)
	}
	clone := c.run(t, 1, func(in *ec2.RunInstancesInput) { in.ImageId = &first })[0]
	c.wantState(t, *clone.InstanceId, types.InstanceStateNameRunning)
}

func TestQuotaOfImages(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.ImageQuota = 1 })
	donor := c.run(t, 1, nil)[0]
	snap := c.shoot(t, *donor.InstanceId)
	first := c.register(t, "first", snap)
	_, err := c.ec2.RegisterImage(t.Context(), like("second", snap))
	wantCode(t, err, refused, "AMIQuotaExceeded")
	ok(c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &first}))(t)
	c.register(t, "second", snap)
}

func TestLongFaults(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	volume := root(c.currentInstance(t, *donor.InstanceId))
	order := func(noun string) {
		if _, err := c.AddFault(fault.Fault{Resource: noun, Long: true, Count: 1, Method: http.MethodPost,
			Operation: map[string]string{"snapshot": "CreateSnapshot", "image": "RegisterImage", "instance": "RunInstances"}[noun]}); err != nil {
			t.Fatal(err)
		}
	}
	order("snapshot")
	snap := ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume}))(t)
	c.advance(10 * time.Minute)
	if got := ok(c.ec2.DescribeSnapshots(t.Context(),
		&ec2.DescribeSnapshotsInput{SnapshotIds: []string{*snap.SnapshotId}}))(t).Snapshots[0]; got.State != types.SnapshotStateError ||
		*got.StateMessage == "" {
		t.Errorf("snapshot is %s", got.State)
	}
	order("image")
	image := c.register(t, "bad", c.shoot(t, *donor.InstanceId))
	if got := c.image(t, image); got.State != types.ImageStateFailed || *got.StateReason.Message == "" {
		t.Errorf("image is %s", got.State)
	}
	order("instance")
	i := c.run(t, 1, nil)[0]
	c.advance(time.Minute)
	if got := c.currentInstance(t, *i.InstanceId); got.State.Name != types.InstanceStateNameTerminated || *got.StateReason.Code != "Server.InternalError" {
		t.Errorf("instance is %s for %+v", got.State.Name, got.StateReason)
	}
}

func TestForbiddenKMSKey(t *testing.T) {
	const key = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
	c := newCloud(t, nil)
	i := c.run(t, 1, func(in *ec2.RunInstancesInput) {
		in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"),
			Ebs: &types.EbsBlockDevice{Encrypted: sdk.Bool(true), KmsKeyId: sdk.String(key)}}}
	})[0]
	volume := root(c.currentInstance(t, *i.InstanceId))
	image := c.register(t, "sealed", c.shoot(t, *i.InstanceId))
	if got := c.image(t, image).BlockDeviceMappings[0].Ebs; !*got.Encrypted {
		t.Error("an image of an encrypted snapshot is not encrypted")
	}
	c.world.config.DeniedKeys = []string{"key/11111111-2222-3333-4444-555555555555"}
	_, err := c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume})
	wantCode(t, err, refused, "KMSKeyNotAccessibleFault")
	_, err = c.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: &image, InstanceType: testType, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
	wantCode(t, err, refused, "Client.InternalError")
}

func TestVolumes(t *testing.T) {
	c := newCloud(t, nil)
	i := c.run(t, 1, nil)[0]
	snap := c.shoot(t, *i.InstanceId)
	in := &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + "a"), SnapshotId: &snap, Size: sdk.Int32(30), ClientToken: sdk.String("v")}
	v := ok(c.ec2.CreateVolume(t.Context(), in))(t)
	if again := ok(c.ec2.CreateVolume(t.Context(), in))(t); *again.VolumeId != *v.VolumeId {
		t.Error("the same token made another volume")
	}
	c.advance(time.Minute)
	got := ok(c.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*v.VolumeId}}))(t).Volumes[0]
	if got.State != types.VolumeStateAvailable || *got.Size != 30 || c.fleet.File(fleet.DiskID(*v.VolumeId), "origin") != "platform:x86" {
		t.Errorf("volume is %s of %d GiB", got.State, *got.Size)
	}
	used := root(c.currentInstance(t, *i.InstanceId))
	_, err := c.ec2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: &used})
	wantCode(t, err, refused, "VolumeInUse")
	ok(c.ec2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: v.VolumeId}))(t)
	if got := ok(c.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*v.VolumeId}}))(t).Volumes[0]; got.State != types.VolumeStateDeleting {
		t.Errorf("the volume is %s", got.State)
	}
	c.advance(time.Minute)
	if again := ok(c.ec2.CreateVolume(t.Context(), in))(t); *again.VolumeId != *v.VolumeId || !again.CreateTime.Equal(*v.CreateTime) {
		t.Errorf("after the end of %+v, the same token gives %+v", v, again)
	}
	if c.fleet.HasDisk(fleet.DiskID(*v.VolumeId)) {
		t.Error("its content is still there")
	}
	attached := ok(c.ec2.DescribeVolumes(t.Context(),
		&ec2.DescribeVolumesInput{Filters: []types.Filter{{Name: sdk.String("attachment.instance-id"), Values: []string{*i.InstanceId}}}}))(t).Volumes
	if len(attached) != 1 || attached[0].State != types.VolumeStateInUse || *attached[0].Attachments[0].Device != "/dev/xvda" {
		t.Errorf("attached are %+v", attached)
	}
}

// TestDisabledImage: no client launches a disabled image, and lists leave it out unless asked. Its instances run on, its tags and its
// snapshot stay, and it can be enabled or deregistered. Only the owner may do so, and only once it is available.
func TestDisabledImage(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	id := c.register(t, "bad", c.shoot(t, *donor.InstanceId))
	launch := func(t *testing.T) error {
		_, err := c.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: &id, InstanceType: types.InstanceTypeM5Large,
			SubnetId: donor.SubnetId, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
		return err
	}
	listed := func(disabled bool) int {
		return len(ok(c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}, IncludeDisabled: sdk.Bool(disabled)}))(t).Images)
	}
	if err := launch(t); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ok(c.ec2.DisableImage(t.Context(), &ec2.DisableImageInput{ImageId: &id}))(t)
	}
	wantCode(t, launch(t), refused, "InvalidAMIID.Unavailable")
	if listed(false) != 0 || listed(true) != 1 {
		t.Errorf("%d images are listed, and %d with disabled ones", listed(false), listed(true))
	}
	ok(c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: sdk.String("a"), Value: sdk.String("b")}}}))(t)
	ok(c.ec2.EnableImage(t.Context(), &ec2.EnableImageInput{ImageId: &id}))(t)
	if err := launch(t); err != nil || listed(false) != 1 {
		t.Errorf("an image that is enabled again: %v, and %d are listed", err, listed(false))
	}
	_, err := c.ec2.DisableImage(t.Context(), &ec2.DisableImageInput{ImageId: donor.ImageId})
	wantCode(t, err, refused, "AuthFailure")
	ok(c.ec2.DisableImage(t.Context(), &ec2.DisableImageInput{ImageId: &id}))(t)
	ok(c.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: &id}))(t)
	_, err = c.ec2.EnableImage(t.Context(), &ec2.EnableImageInput{ImageId: &id})
	wantCode(t, err, refused, "InvalidAMIID.Unavailable")
}
