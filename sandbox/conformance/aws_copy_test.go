package conformance

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// ofCopy are the tags of an owner with an end.
func ofCopy() map[string]string {
	return map[string]string{cloud.TagUID: "u", cloud.TagPrototype: "it", cloud.TagCluster: "c", cloud.TagOrder: "o", cloud.TagEndsAt: "2026-03-14T10:00:00Z"}
}

// raw copies the disk of the first instance in use, and returns the spec of a copy on an instance.
func (w *amazon) rawCopy(on cloud.InstanceID) cloud.CopySpec {
	w.Helper()
	spec := cloud.CopySpec{Name: "it", Instance: on, Tags: ofCopy()}
	w.until("copied", func() bool {
		have, err := w.disks.EnsureSnapshot(w.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.ids[0], InUse: true, Tags: ofCopy()})
		w.must(err)
		spec.SnapshotID = have.ID
		return have.State == cloud.Complete
	})
	return spec
}

// attached attaches a copy.
func (w *amazon) attached(disks *provider.ImageProvider, spec cloud.CopySpec) (have cloud.DiskCopy) {
	w.Helper()
	w.until("attached", func() bool {
		var err error
		have, err = disks.EnsureAttached(w.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete && have.IsAttached
	})
	return have
}

// volumesWith returns the volumes that have a tag.
func (w *amazon) volumesWith(key string) []ec2types.Volume {
	w.Helper()
	w.advance(time.Minute)
	out, err := w.raw.DescribeVolumes(w.Context(), &ec2.DescribeVolumesInput{Filters: []ec2types.Filter{{Name: sdk.String("tag-key"), Values: []string{key}}}})
	w.must(err)
	return out.Volumes
}

// TestAWSCopyIsLikeItsDonor: the volume is in the zone of its workshop, encrypted as the donor's, tagged for sweeps, and not deleted
// with the workshop. The guest finds it by the volume's ID.
func TestAWSCopyIsLikeItsDonor(t *testing.T) {
	const key = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
	w := startAmazon(t, 0)
	run := func(subnet string, devices ...ec2types.BlockDeviceMapping) cloud.InstanceID {
		out, err := w.raw.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: sdk.String(awsImage), InstanceType: "m6i.large", MinCount: sdk.Int32(1),
			MaxCount: sdk.Int32(1), SubnetId: sdk.String(subnet), BlockDeviceMappings: devices})
		w.must(err)
		w.advance(time.Minute)
		return awsID(out.Instances[0])
	}
	w.ids = []cloud.InstanceID{run("subnet-0000000000000000a", ec2types.BlockDeviceMapping{DeviceName: sdk.String("/dev/xvda"),
		Ebs: &ec2types.EbsBlockDevice{Encrypted: sdk.Bool(true), KmsKeyId: sdk.String(key)}})}
	on := run("subnet-0000000000000000b", ec2types.BlockDeviceMapping{DeviceName: sdk.String("/dev/xvdf"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: sdk.Int32(1)}})
	spec := w.rawCopy(on)
	have := w.attached(w.disks, spec)
	all := w.volumesWith("kamino-copy-name")
	if len(all) != 1 {
		t.Fatalf("there are %d copies", len(all))
	}
	v := all[0]
	tags := map[string]string{}
	for _, tag := range v.Tags {
		tags[*tag.Key] = *tag.Value
	}
	if *v.AvailabilityZone != awsRegion+"b" || sdk.ToString(v.KmsKeyId) != key || v.VolumeType != "gp3" || tags[cloud.TagEndsAt] != ofCopy()[cloud.TagEndsAt] ||
		tags[cloud.TagOrder] != "o" || tags[cloud.TagUID] != "u" || tags["kamino-machine"] == "" {
		t.Errorf("it is %+v, and its tags are %v", v, tags)
	}
	if a := v.Attachments[0]; sdk.ToBool(a.DeleteOnTermination) || *a.Device != "/dev/sdg" { // f has another volume
		t.Errorf("it is attached as %+v", a)
	}
	if want := strings.Replace(*v.VolumeId, "-", "", 1); have.Device.Serial != want || !slices.Equal(have.Device.Names, []string{"/dev/xvdg", "/dev/sdg"}) {
		t.Errorf("its guest finds it by %+v", have.Device)
	}
	if further := w.fleet.Machine(path.Base(string(on))).Further; len(further) != 1 || further[0].Serial != have.Device.Serial {
		t.Errorf("its guest has %+v", further)
	}
}

// TestAWSCopyIsOfTheMomentOfItsSnapshot: what the donor writes afterwards is in no copy.
func TestAWSCopyIsOfTheMomentOfItsSnapshot(t *testing.T) {
	w := newAmazon(t, awsImage)
	out, err := w.raw.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{path.Base(string(w.ids[0]))}})
	w.must(err)
	root := fleet.DiskID(*out.Reservations[0].Instances[0].BlockDeviceMappings[0].Ebs.VolumeId)
	w.fleet.WriteFile(root, "nonce", "now")
	spec := w.rawCopy(w.ids[1])
	w.fleet.WriteFile(root, "nonce", "later")
	have := w.attached(w.disks, spec)
	if got := w.fleet.File(fleet.DiskID(have.ID), "nonce"); got != "now" {
		t.Errorf("the copy has %q", got)
	}
	if m := w.fleet.Machine(path.Base(string(w.ids[0]))); m.Power != fleet.On || m.Boots != 1 {
		t.Errorf("the donor is %+v", m)
	}
}

// TestAWSReadsBeforeTheMomentOfACopy: while the donor's disk stands, there is one request.
func TestAWSReadsBeforeTheMomentOfACopy(t *testing.T) {
	w := newAmazon(t, awsImage)
	_, err := w.disks.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.ids[0], InUse: true, Tags: ofCopy(),
		BeforeCopy: func(context.Context) error { w.server.Log.Reset(); return nil }})
	w.must(err)
	if sent := w.server.Requests(); len(sent) != 1 || sent[0].Operation != "CreateSnapshot" {
		t.Errorf("while the disk stands, Kamino sends:\n%s", lastOf(sent))
	}
}

// TestAWSCopyIsMadeOnce: processes that follow a kill, before EC2 shows anything, make no second volume and no second attachment.
func TestAWSCopyIsMadeOnce(t *testing.T) {
	w := newAmazon(t, awsImage)
	spec := w.rawCopy(w.ids[1])
	fresh := func() *provider.ImageProvider {
		config, err := provider.Load(t.Context(), "")
		w.must(err)
		config.Now = w.now
		disks, _ := provider.New(config)
		return disks
	}
	for range 3 {
		have, err := fresh().EnsureAttached(t.Context(), spec)
		if err != nil || have.State != cloud.Pending {
			t.Errorf("%+v, %v", have, err)
		}
	}
	w.advance(time.Minute)
	for range 3 {
		have, err := fresh().EnsureAttached(t.Context(), spec)
		if err != nil || have.State != cloud.Pending {
			t.Errorf("%+v, %v", have, err)
		}
	}
	have := w.attached(fresh(), spec)
	if all := w.volumesWith("kamino-copy-name"); len(all) != 1 || *all[0].VolumeId != have.ID {
		t.Fatalf("there are %d copies", len(all))
	}
	ended := fresh()
	w.until("ended", func() bool {
		state, err := ended.EndCopy(t.Context(), spec)
		w.must(err)
		return state == cloud.Absent
	})
	if all := w.volumesWith("kamino-copy-name"); len(all) > 0 || w.fleet.HasDisk(fleet.DiskID(have.ID)) {
		t.Errorf("left are %+v", all)
	}
}

// TestAWSCopyFails: what EC2 refuses, and what it does after its answer, has a kind and a remedy.
func TestAWSCopyFails(t *testing.T) {
	const key = "key/11111111-2222-3333-4444-555555555555"
	for name, test := range map[string]struct {
		config func(*aws.Config)
		fault  fault.Fault
		kind   cloud.Kind
		says   string
	}{
		"product codes": {func(c *aws.Config) { c.Images[0].Codes = []string{"code"} }, fault.Fault{}, cloud.Refused, "in place"},
		"too many volumes": {nil, fault.Fault{Operation: "AttachVolume", Status: http.StatusBadRequest, Code: "AttachmentLimitExceeded", Message: "no"},
			cloud.QuotaExceeded, "settings.donor.workshopType"},
		"a device that is taken since": {nil, fault.Fault{Operation: "AttachVolume", Status: http.StatusBadRequest, Code: "InvalidParameterValue",
			Message: "Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use"}, cloud.Conflict, "/dev/sdf"},
		"too many gigabytes": {nil, fault.Fault{Operation: "CreateVolume", Status: http.StatusBadRequest, Code: "VolumeLimitExceeded", Message: "no"},
			cloud.QuotaExceeded, "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			var change []func(*aws.Config)
			if test.config != nil {
				change = append(change, test.config)
			}
			w := startAmazonOn(t, nil, 0, change...)
			out, err := w.raw.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: sdk.String(awsImage), InstanceType: "m6i.large",
				MinCount: sdk.Int32(2), MaxCount: sdk.Int32(2)})
			w.must(err)
			w.advance(time.Minute)
			w.ids = []cloud.InstanceID{awsID(out.Instances[0]), awsID(out.Instances[1])}
			spec := w.rawCopy(w.ids[1])
			if test.fault.Operation != "" {
				_, err = w.server.AddFault(test.fault)
				w.must(err)
			}
			w.until("failed", func() bool {
				_, err = w.disks.EnsureAttached(t.Context(), spec)
				return err != nil
			})
			if !cloud.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %s with %q", err, test.kind, test.says)
			}
		})
	}
	t.Run("a key that may not be used", func(t *testing.T) {
		w := startAmazonOn(t, nil, 0, func(c *aws.Config) { c.DeniedKeys = nil })
		out, err := w.raw.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: sdk.String(awsImage), InstanceType: "m6i.large", MinCount: sdk.Int32(2),
			MaxCount: sdk.Int32(2), BlockDeviceMappings: []ec2types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"),
				Ebs: &ec2types.EbsBlockDevice{Encrypted: sdk.Bool(true), KmsKeyId: sdk.String("arn:aws:kms:eu-central-1:123456789012:" + key)}}}})
		w.must(err)
		w.advance(time.Minute)
		w.ids = []cloud.InstanceID{awsID(out.Instances[0]), awsID(out.Instances[1])}
		spec := w.rawCopy(w.ids[1])
		w.must(w.server.DenyKeys(key))
		var have cloud.DiskCopy
		w.until("failed", func() bool {
			have, err = w.disks.EnsureAttached(t.Context(), spec)
			w.must(err)
			return have.State == cloud.Failed
		})
		if !strings.Contains(have.Error, "key") {
			t.Errorf("%+v", have)
		}
	})
}

// TestAWSCopyElsewhere: a copy that is a disk of another instance, or in another zone than its workshop, is not taken.
func TestAWSCopyElsewhere(t *testing.T) {
	w := newAmazon(t, awsImage)
	spec := w.rawCopy(w.ids[1])
	w.attached(w.disks, spec)
	w.until("detached", func() bool {
		have, err := w.disks.EnsureDetached(t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete && !have.IsAttached
	})
	out, err := w.raw.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: sdk.String(awsImage), InstanceType: "m6i.large", MinCount: sdk.Int32(1),
		MaxCount: sdk.Int32(1), SubnetId: sdk.String("subnet-0000000000000000c")})
	w.must(err)
	w.advance(time.Minute)
	spec.Instance = awsID(out.Instances[0])
	if _, err := w.disks.EnsureAttached(t.Context(), spec); !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), "zone "+awsRegion+"c") {
		t.Errorf("%v", err)
	}
}

// TestAWSCopyOfAnotherOwner: an older volume with the name of the copy, of another cluster or with tags that a person wrote, is never
// attached, copied or deleted in its place.
func TestAWSCopyOfAnotherOwner(t *testing.T) {
	for name, uid := range map[string]string{"another cluster": "other", "a person": "u"} {
		t.Run(name, func(t *testing.T) {
			w := newAmazon(t, awsImage)
			shot, err := w.disks.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "other", Instance: w.ids[1], InUse: true, Tags: ofCopy()})
			w.must(err)
			w.advance(10 * time.Minute)
			forged, err := w.raw.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(awsRegion + "a"),
				SnapshotId: sdk.String(path.Base(shot.ID)), TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeVolume,
					Tags: []ec2types.Tag{{Key: sdk.String("kamino-copy-name"), Value: sdk.String("it")}, {Key: sdk.String(cloud.TagUID), Value: sdk.String(uid)}}}}})
			w.must(err)
			w.advance(time.Minute)
			spec := w.rawCopy(w.ids[1])
			if have, err := w.disks.Copy(t.Context(), spec); err != nil || have.State != cloud.Absent {
				t.Fatalf("before it is made, the copy is %+v, %v", have, err)
			}
			made := w.attached(w.disks, spec)
			w.until("detached", func() bool {
				have, err := w.disks.EnsureDetached(t.Context(), spec)
				w.must(err)
				return have.State == cloud.Complete && !have.IsAttached
			})
			clean, err := w.disks.EnsureCopySnapshot(t.Context(), spec, cloud.SnapshotSpec{Name: "clean", Instance: w.ids[0], Tags: ofCopy()})
			w.must(err)
			w.advance(time.Minute)
			out, err := w.raw.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{path.Base(clean.ID)}})
			w.must(err)
			if of := *out.Snapshots[0].VolumeId; of != made.ID {
				t.Errorf("the snapshot is of %s, and the copy is %s", of, made.ID)
			}
			version := cloud.VersionSpec{FamilyVersion: cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"}, Proven: made.ID}
			version.SnapshotID = shot.ID
			if _, err := w.disks.EnsureImage(t.Context(), version); !cloud.Is(err, cloud.Invalid) || !strings.Contains(err.Error(), made.ID) {
				t.Errorf("a version of another disk: %v", err)
			}
			version.SnapshotID = clean.ID
			w.advance(10 * time.Minute)
			_, err = w.disks.EnsureImage(t.Context(), version)
			w.must(err)
			w.until("ended", func() bool {
				state, err := w.disks.EndCopy(t.Context(), spec)
				w.must(err)
				return state == cloud.Absent
			})
			if left := w.volumesWith("kamino-copy-name"); len(left) != 1 || *left[0].VolumeId != *forged.VolumeId {
				t.Errorf("left are %+v", left)
			}
		})
	}
}

// TestAWSSnapshotOfAnotherOwner: the deletion of a snapshot leaves a younger one of the name that another cluster made.
func TestAWSSnapshotOfAnotherOwner(t *testing.T) {
	w := newAmazon(t, awsImage)
	spec := cloud.SnapshotSpec{Name: "raw", Instance: w.ids[0], InUse: true, Tags: ofCopy()}
	own, err := w.disks.EnsureSnapshot(t.Context(), spec)
	w.must(err)
	w.advance(time.Minute)
	out, err := w.raw.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{path.Base(own.ID)}})
	w.must(err)
	other, err := w.raw.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: out.Snapshots[0].VolumeId,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSnapshot,
			Tags: []ec2types.Tag{{Key: sdk.String("kamino-snapshot"), Value: sdk.String("raw")}, {Key: sdk.String(cloud.TagUID), Value: sdk.String("other")}}}}})
	w.must(err)
	w.advance(time.Minute)
	w.must(w.disks.DeleteSnapshot(t.Context(), w.ids[0], "raw"))
	w.advance(time.Minute)
	out, err = w.raw.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}})
	w.must(err)
	if len(out.Snapshots) != 1 || *out.Snapshots[0].SnapshotId != *other.SnapshotId {
		t.Errorf("left are %+v", out.Snapshots)
	}
}

// TestAWSImageOfARawSnapshot: a snapshot of a disk in use keeps its owner while another client's image needs it, so that sweeps find it.
func TestAWSImageOfARawSnapshot(t *testing.T) {
	w := newAmazon(t, awsImage)
	id := w.rawCopy(w.ids[1]).SnapshotID
	w.advance(time.Minute)
	image, err := w.raw.RegisterImage(t.Context(), &ec2.RegisterImageInput{Name: sdk.String("mine"), RootDeviceName: sdk.String("/dev/xvda"),
		BlockDeviceMappings: []ec2types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"), Ebs: &ec2types.EbsBlockDevice{SnapshotId: sdk.String(path.Base(id))}}}})
	w.must(err)
	family := cloud.ImageFamily{Place: awsRegion, Name: awsGroup}
	for name, remove := range map[string]func() error{
		"by name": func() error { return w.disks.DeleteSnapshot(t.Context(), w.ids[0], "raw") },
		"by ID":   func() error { return w.disks.DropSnapshot(t.Context(), id) },
	} {
		w.advance(time.Minute)
		if err := remove(); !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), *image.ImageId) || !strings.Contains(err.Error(), "deregister-image") {
			t.Errorf("%s: %v", name, err)
		}
		w.advance(time.Minute)
		left, err := w.disks.Snapshots(t.Context(), family)
		w.must(err)
		if len(left) != 1 || left[0].ID != id || left[0].Tags[cloud.TagEndsAt] == "" || left[0].State != cloud.Complete ||
			left[0].HeldBy != "image "+*image.ImageId || left[0].Release != "aws ec2 deregister-image --region "+awsRegion+" --image-id "+*image.ImageId {
			t.Errorf("%s: a sweep finds %+v", name, left)
		}
	}
	_, err = w.raw.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: image.ImageId})
	w.must(err)
	w.advance(time.Minute)
	w.must(w.disks.DropSnapshot(t.Context(), id))
	if left := w.snapshots(); len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
}

// TestAWSWorkshopOfAnotherOwner: a Prototype that follows a deleted one of its name gets a workshop of its own, while EC2 still shows the
// other, running or terminated.
func TestAWSWorkshopOfAnotherOwner(t *testing.T) {
	for name, ends := range map[string]bool{"running": false, "terminated": true} {
		t.Run(name, func(t *testing.T) {
			w := newGroup(t, atOnce, "1")
			first := cloud.WorkshopSpec{Pool: w.pool, Name: "it", Tags: ofCopy()}
			second := first
			second.Tags = ofCopy()
			second.Tags[cloud.TagUID] = "second"
			built := func(spec cloud.WorkshopSpec) (have cloud.Trial) {
				w.until("built", func() bool {
					var err error
					have, err = w.recipes.EnsureWorkshop(t.Context(), spec)
					w.must(err)
					return have.State == cloud.Complete
				})
				return have
			}
			old := built(first).Instances[0].ID
			w.until("ended", func() bool {
				if !ends {
					return true
				}
				state, err := w.recipes.EndWorkshop(t.Context(), first)
				w.must(err)
				return state == cloud.Absent
			})
			if made := built(second).Instances[0].ID; made == old {
				t.Errorf("it has the instance of another owner")
			}
			all, err := w.recipes.Workshops(t.Context(), w.pool)
			w.must(err)
			if want := map[bool]int{true: 1, false: 2}[ends]; len(all) != want {
				t.Errorf("listed are %+v, want %d", all, want)
			}
			for _, spec := range all {
				w.until("ended", func() bool {
					state, err := w.recipes.EndWorkshop(t.Context(), spec)
					w.must(err)
					return state == cloud.Absent
				})
			}
			if all, err = w.recipes.Workshops(t.Context(), w.pool); err != nil || len(all) > 0 {
				t.Errorf("left are %+v, %v", all, err)
			}
		})
	}
}

// TestAWSWorkshopOfAnotherType: the workshop has the type of its spec, and else the type of the group. It boots with its own disks
// only.
func TestAWSWorkshopOfAnotherType(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	for kind, want := range map[string]ec2types.InstanceType{"": "m6i.large", "m6i.4xlarge": "m6i.4xlarge"} {
		spec := cloud.WorkshopSpec{Pool: w.pool, Name: "it-" + kind, InstanceType: kind, Tags: ofCopy()}
		_, err := w.recipes.EnsureWorkshop(t.Context(), spec)
		w.must(err)
		w.advance(time.Minute)
		have, err := w.recipes.Workshop(t.Context(), spec)
		w.must(err)
		out, err := w.raw.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{path.Base(string(have.Instances[0].ID))}})
		w.must(err)
		if m := out.Reservations[0].Instances[0]; m.InstanceType != want || len(m.BlockDeviceMappings) != 1 || sdk.ToString(m.ImageId) != awsImage {
			t.Errorf("the workshop of type %q is %s of %s with %d disks", kind, m.InstanceType, sdk.ToString(m.ImageId), len(m.BlockDeviceMappings))
		}
	}
}

// TestAWSDonorThatStays: what only prevents a stop or a return of the donor is no obstacle to a capture by copy.
func TestAWSDonorThatStays(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	id := path.Base(string(w.ids[0]))
	_, err := w.scaling.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup), MinSize: sdk.Int32(2)})
	w.must(err)
	_, err = w.raw.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: &id,
		InstanceInitiatedShutdownBehavior: &ec2types.AttributeValue{Value: sdk.String("terminate")}})
	w.must(err)
	_, err = w.raw.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: &id,
		DisableApiStop: &ec2types.AttributeBooleanValue{Value: sdk.Bool(true)}})
	w.must(err)
	for _, action := range []string{"ec2:StopInstances", "ec2:StartInstances", "autoscaling:EnterStandby", "autoscaling:SetInstanceProtection"} {
		_, err = w.server.AddFault(fault.Fault{Deny: action})
		w.must(err)
	}
	p := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes))
	for copies, want := range map[bool]int{false: 7, true: 0} {
		found, err := p.Preflight(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.20", Copies: copies})
		w.must(err)
		if len(found) != want {
			t.Errorf("with copies %t it finds %d obstacles, want %d: %+v", copies, len(found), want, found)
		}
	}
}

// TestAWSPreflightOfWorkshop: each missing permission of a capture by copy has its sentence.
func TestAWSPreflightOfWorkshop(t *testing.T) {
	for _, action := range []string{"ec2:RunInstances", "ec2:CreateVolume", "ec2:AttachVolume", "ec2:DetachVolume", "ec2:DeleteVolume", "ec2:TerminateInstances"} {
		w := newGroup(t, atOnce, "1")
		_, err := w.server.AddFault(fault.Fault{Deny: action})
		w.must(err)
		found, err := w.recipes.PreflightWorkshop(t.Context(), cloud.WorkshopSpec{Pool: w.pool, Name: "it", Tags: ofCopy()})
		w.must(err)
		if len(found) != 1 || found[0].Reason != cloud.PermissionMissing || !strings.Contains(found[0].Message, action) {
			t.Errorf("without %s: %+v", action, found)
		}
	}
}

// TestAWSTypeOfTheWorkshop: a type on which the guest cannot find the copy is refused before a workshop starts, whether the group, the
// mixed instances policy or the settings choose it.
func TestAWSTypeOfTheWorkshop(t *testing.T) {
	for name, of := range map[string]struct {
		group, asked string
		mixed        []string
		inPlace      bool
		says         string
	}{
		"Nitro":                       {group: "m6i.large"},
		"bare metal":                  {group: "i3.metal"},
		"Xen":                         {group: "m4.large", says: "instance type m4.large of the workshop runs on Xen"},
		"Xen in place":                {group: "m4.large", inPlace: true},
		"Xen, and a workshop's type":  {group: "m4.large", asked: "m6i.large"},
		"Nitro, and a workshop's Xen": {group: "m6i.large", asked: "t2.large", says: "instance type t2.large of the workshop runs on Xen"},
		"no such type":                {group: "m6i.large", asked: "large", says: "instance type large of the workshop does not exist in"},
		"mixed, Nitro first":          {group: "m4.large", mixed: []string{"m6i.large", "m4.large"}},
		"mixed, of which Nitro runs":  {group: "m6i.large", mixed: []string{"m4.large", "m6i.large"}},
		"mixed, of which none runs":   {group: "m6i.large", mixed: []string{"m4.large", "m7i.large"}, says: "m4.large of the workshop runs on Xen"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroup(t, atOnce, "1")
			template := &ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceType(of.group)}
			_, err := w.raw.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &w.template,
				SourceVersion: sdk.String("1"), LaunchTemplateData: template})
			w.must(err)
			in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup)}
			next := &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: &w.template, Version: sdk.String("2")}
			if in.LaunchTemplate = next; of.mixed != nil {
				in.LaunchTemplate, in.MixedInstancesPolicy = nil, &scalingtypes.MixedInstancesPolicy{LaunchTemplate: &scalingtypes.LaunchTemplate{LaunchTemplateSpecification: next}}
				for _, kind := range of.mixed {
					in.MixedInstancesPolicy.LaunchTemplate.Overrides = append(in.MixedInstancesPolicy.LaunchTemplate.Overrides,
						scalingtypes.LaunchTemplateOverrides{InstanceType: &kind})
				}
			}
			_, err = w.scaling.UpdateAutoScalingGroup(t.Context(), in)
			w.must(err)
			p := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes))
			found, err := p.Preflight(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.20", Copies: !of.inPlace,
				WorkshopType: of.asked})
			w.must(err)
			i := slices.IndexFunc(found, func(r cloud.Refusal) bool { return r.Reason == cloud.PoolNotCopyable })
			if (i >= 0) != (of.says != "") || i >= 0 && (!strings.Contains(found[i].Message, of.says) || !strings.Contains(found[i].Remedy, "workshopType")) {
				t.Errorf("%+v, want %q", found, of.says)
			}
		})
	}
}

// TestAWSDonorOfTheMarketplace: a donor with product codes is captured in place only.
func TestAWSDonorOfTheMarketplace(t *testing.T) {
	w := groupOf(t, startAmazonOn(t, nil, atOnce, func(c *aws.Config) { c.Images[0].Codes = []string{"code"} }), "1")
	p := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes))
	for _, copies := range []bool{false, true} {
		found, err := p.Preflight(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.20", Copies: copies})
		w.must(err)
		if copies != slices.ContainsFunc(found, func(r cloud.Refusal) bool { return r.Reason == "DiskUnsupported" && r.Remedy != "" }) {
			t.Errorf("with copies %t: %+v", copies, found)
		}
	}
}
