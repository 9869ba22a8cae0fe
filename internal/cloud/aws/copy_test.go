package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestFreeDevice: names with another prefix or a partition are the same device for a guest.
func TestFreeDevice(t *testing.T) {
	for want, taken := range map[string][]string{
		"/dev/sdf": {"/dev/xvda", "/dev/sdb", "/dev/xvdba"},
		"/dev/sdg": {"/dev/sda1", "/dev/sdf"},
		"/dev/sdh": {"xvdf", "/dev/sdg1"},
		"": {"/dev/sdf", "/dev/sdg", "/dev/sdh", "/dev/sdi", "/dev/sdj", "/dev/sdk", "/dev/sdl", "/dev/sdm", "/dev/sdn", "/dev/sdo",
			"/dev/xvdp"},
	} {
		var m types.Instance
		for _, name := range taken {
			m.BlockDeviceMappings = append(m.BlockDeviceMappings, types.InstanceBlockDeviceMapping{DeviceName: sdk.String(name)})
		}
		if got := freeDevice(m); got != want {
			t.Errorf("beside %v the name is %q, want %q", taken, got, want)
		}
	}
}

// TestStatesOfCopies: a guest has the volume from attached until it is detached. What EC2 does not show yet is pending.
func TestStatesOfCopies(t *testing.T) {
	const id = "vol-0123456789abcdef0"
	ref := copyRef{"eu-central-1", "it"}
	on := func(state types.VolumeAttachmentState) *types.Volume {
		return &types.Volume{VolumeId: sdk.String(id), State: types.VolumeStateInUse,
			Attachments: []types.VolumeAttachment{{State: state, Device: sdk.String("/dev/sdf"), InstanceId: sdk.String("i-1")}}}
	}
	free := func(state types.VolumeState) *types.Volume {
		return &types.Volume{VolumeId: sdk.String(id), State: state}
	}
	device := cloud.DiskDevice{Serial: "vol0123456789abcdef0", Names: []string{"/dev/xvdf", "/dev/sdf"}}
	for name, test := range map[string]struct {
		v      *types.Volume
		recent string // the request key of this process
		want   cloud.DiskCopy
	}{
		"nothing":          {nil, "", cloud.DiskCopy{}},
		"not shown yet":    {nil, ref.key(), cloud.DiskCopy{ID: id, State: cloud.Pending}},
		"creating":         {free(types.VolumeStateCreating), "", cloud.DiskCopy{ID: id, State: cloud.Pending}},
		"available":        {free(types.VolumeStateAvailable), "", cloud.DiskCopy{ID: id, State: cloud.Complete}},
		"attached in vain": {free(types.VolumeStateAvailable), ref.attachedKey(), cloud.DiskCopy{ID: id, State: cloud.Pending}},
		"attaching":        {on(types.VolumeAttachmentStateAttaching), "", cloud.DiskCopy{ID: id, State: cloud.Pending}},
		"attached":         {on(types.VolumeAttachmentStateAttached), "", cloud.DiskCopy{ID: id, State: cloud.Complete, IsAttached: true, Device: device}},
		"detaching":        {on(types.VolumeAttachmentStateDetaching), "", cloud.DiskCopy{ID: id, State: cloud.Pending, IsAttached: true, Device: device}},
		"busy":             {on(types.VolumeAttachmentStateBusy), "", cloud.DiskCopy{ID: id, State: cloud.Pending, IsAttached: true, Device: device}},
		"error":            {free(types.VolumeStateError), "", cloud.DiskCopy{ID: id, State: cloud.Failed, Error: brokenVolume}},
		"deleting":         {free(types.VolumeStateDeleting), "", cloud.DiskCopy{ID: id, State: cloud.Deleting}},
	} {
		a := copier{account: newAccount(Config{})}
		if test.recent != "" {
			a.account.recordCreated(test.recent, id, nil)
		}
		if diff := cmp.Diff(test.want, a.diskCopy(ref, test.v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
