package aws

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// mappingOf returns the mapping of a device in the launch template; nil without a mapping.
func (r recipe) mappingOf(device string) *ec2types.LaunchTemplateBlockDeviceMapping {
	if r.data == nil {
		return nil
	}
	at := slices.IndexFunc(r.data.BlockDeviceMappings, func(m ec2types.LaunchTemplateBlockDeviceMapping) bool { return sdk.ToString(m.DeviceName) == device })
	if at < 0 {
		return nil
	}
	return &r.data.BlockDeviceMappings[at]
}

// sizeOf returns the size of a device in the launch template, in GiB; 0 if the snapshot of the image decides.
func (r recipe) sizeOf(device string) int32 {
	if m := r.mappingOf(device); m != nil && m.Ebs != nil {
		return sdk.ToInt32(m.Ebs.VolumeSize)
	}
	return 0
}

// rootTooLarge returns the refusal of a root disk that is larger than the launch template's root volume; nil otherwise. EC2
// refuses to launch a volume that is smaller than its snapshot.
func rootTooLarge(ref fmt.Stringer, what string, has, gives int32) *cloud.Refusal {
	if gives == 0 || has <= gives {
		return nil
	}
	refusal := cloud.Refuse(cloud.RootDiskTooLarge,
		fmt.Sprintf("%s: %s has a root disk of %d GiB, but the recipe gives new nodes %d GiB, and EC2 would not launch them", ref, what, has, gives),
		fmt.Sprintf("set the root volume of the recipe to at least %d GiB, or capture a node with at most %d GiB", has, gives))
	return &refusal
}

// refusalsOfDisks compares the disks of the donor and of the donor's image with the launch template. The size of the root
// volume costs a request, if the template has a size.
func refusalsOfDisks(ctx context.Context, a *account, ref group, r recipe, id cloud.InstanceID) ([]cloud.Refusal, error) {
	donor, err := parseInstance(id)
	if err != nil || r.data == nil {
		return nil, err
	}
	m, err := a.readInstance(ctx, donor)
	if err != nil {
		return nil, err
	}
	found, err := refusalsOfImageDisks(ctx, a, ref, r, m)
	if err != nil {
		return nil, err
	}
	device, root := sdk.ToString(m.RootDeviceName), rootOf(m)
	if r.sizeOf(device) == 0 || root == nil {
		return found, nil
	}
	size, err := volumeSize(ctx, a, donor, sdk.ToString(root.VolumeId))
	if refusal := rootTooLarge(ref, donor.String(), size, r.sizeOf(device)); refusal != nil {
		found = append(found, *refusal)
	}
	return found, err
}

// volumeSize returns the size of a volume in GiB.
func volumeSize(ctx context.Context, a *account, of instance, id string) (int32, error) {
	out, err := a.ec2(of.region).DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil {
		return 0, fail("read the root volume of", of, err)
	}
	for _, v := range out.Volumes {
		return sdk.ToInt32(v.Size), nil
	}
	return 0, nil
}

// refusalsOfImageDisks refuses further disks of the donor's image, unless the launch template maps the disks itself.
func refusalsOfImageDisks(ctx context.Context, a *account, ref group, r recipe, m ec2types.Instance) ([]cloud.Refusal, error) {
	im, err := imageFromCache(ctx, a, ref.region, sdk.ToString(m.ImageId))
	if err != nil || im == nil {
		return nil, err
	}
	for _, d := range im.BlockDeviceMappings {
		device := sdk.ToString(d.DeviceName)
		if d.Ebs == nil || device == sdk.ToString(im.RootDeviceName) {
			continue
		}
		own := r.mappingOf(device)
		if own != nil && (own.NoDevice != nil || r.sizeOf(device) > 0 && sdk.ToString(d.Ebs.SnapshotId) == "") {
			continue
		}
		return []cloud.Refusal{cloud.Refuse(cloud.TemplateUnsuitable,
			fmt.Sprintf("%s: image %s maps disk %s, and nodes from Kamino's image would lack the disk", ref, sdk.ToString(im.ImageId), device),
			fmt.Sprintf("map %s in the launch template with a size, or with NoDevice", device))}, nil
	}
	return nil, nil
}

// rootSizeOf returns the size of an image's root disk in GiB.
func rootSizeOf(im ec2types.Image) int32 {
	for _, d := range im.BlockDeviceMappings {
		if d.Ebs != nil && sdk.ToString(d.DeviceName) == sdk.ToString(im.RootDeviceName) {
			return sdk.ToInt32(d.Ebs.VolumeSize)
		}
	}
	return 0
}

// refusalOfRoot returns the refusal of an image whose root disk is larger than the launch template's root volume; nil otherwise.
func refusalOfRoot(ref group, r recipe, im ec2types.Image) *cloud.Refusal {
	return rootTooLarge(ref, "image "+sdk.ToString(im.ImageId), rootSizeOf(im), r.sizeOf(sdk.ToString(im.RootDeviceName)))
}
