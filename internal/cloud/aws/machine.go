package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// machine is what an image must say of the machines that it fits, taken from the donor: what RegisterImage takes for granted fits none
// of today's (i386, paravirtual, without ENA). It stands in a tag of the snapshot, because the donor, and the image that it came from,
// may be gone when the snapshot is complete. The names are short, for a tag has 256 characters.
type machine struct {
	Architecture string `json:"a"`
	Root         string `json:"r"`
	ENA          bool   `json:"e,omitempty"`
	Sriov        string `json:"s,omitempty"`
	BootMode     string `json:"b,omitempty"`
	TPM          string `json:"t,omitempty"`
	IMDS         string `json:"i,omitempty"`
	// Volume is the kind of the root volume, with what it was given of operations and throughput (MiB/s) by the second.
	Volume     string `json:"v,omitempty"`
	Iops       int32  `json:"o,omitempty"`
	Throughput int32  `json:"p,omitempty"`
}

func (m machine) String() string {
	text, _ := json.Marshal(m) // plain values
	return string(text)
}

func machineOf(text string) (m machine, err error) {
	err = json.Unmarshal([]byte(text), &m)
	if err == nil && (m.Architecture == "" || m.Root == "") {
		err = fmt.Errorf("it names no architecture or root device")
	}
	return m, err
}

// rootOf is the instance's root volume; nil if that is none of EBS.
func rootOf(m types.Instance) *types.EbsInstanceBlockDevice {
	for _, d := range m.BlockDeviceMappings {
		if d.Ebs != nil && sdk.ToString(d.DeviceName) == sdk.ToString(m.RootDeviceName) {
			return d.Ebs
		}
	}
	return nil
}

// launchedAt is when the instance was made. AWS's LaunchTime is that of its last start; its root volume was attached once.
func launchedAt(m types.Instance) time.Time {
	if root := rootOf(m); root != nil && root.AttachTime != nil {
		return *root.AttachTime
	}
	return sdk.ToTime(m.LaunchTime)
}

// describe gathers what an image of the instance's disk must say.
func (a *account) describe(ctx context.Context, ref instance, m types.Instance, volume string) (machine, error) {
	out := machine{
		Architecture: string(m.Architecture), Root: sdk.ToString(m.RootDeviceName), ENA: sdk.ToBool(m.EnaSupport), Sriov: sdk.ToString(m.SriovNetSupport),
		BootMode: string(m.BootMode), TPM: sdk.ToString(m.TpmSupport),
	}
	client := a.in(ref.region)
	volumes, err := client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{volume}})
	if err != nil {
		return machine{}, fail("look at the root volume of", ref, err)
	}
	for _, v := range volumes.Volumes {
		out.Volume = string(v.VolumeType)
		if v.VolumeType == types.VolumeTypeIo1 || v.VolumeType == types.VolumeTypeIo2 || v.VolumeType == types.VolumeTypeGp3 {
			out.Iops = sdk.ToInt32(v.Iops)
		}
		out.Throughput = sdk.ToInt32(v.Throughput)
	}
	im, err := imageSeen(ctx, a, ref.region, sdk.ToString(m.ImageId))
	if err != nil {
		return machine{}, err
	}
	if im != nil { // else it is gone, and the instance alone tells
		out.IMDS = string(im.ImdsSupport)
		if out.TPM == "" {
			out.TPM = string(im.TpmSupport)
		}
		if out.BootMode == "" {
			out.BootMode = string(im.BootMode)
		}
	}
	return out, nil
}

// registration is what an image of the snapshot is registered by. Encryption follows the snapshot, and must not be said.
func (m machine) registration(ref cloud.FamilyVersion, snapshot string, tags []types.Tag) *ec2.RegisterImageInput {
	root := &types.EbsBlockDevice{SnapshotId: sdk.String(snapshot), DeleteOnTermination: sdk.Bool(true), VolumeType: types.VolumeType(m.Volume)}
	if m.Iops > 0 {
		root.Iops = sdk.Int32(m.Iops)
	}
	if m.Throughput > 0 {
		root.Throughput = sdk.Int32(m.Throughput)
	}
	in := &ec2.RegisterImageInput{
		Name: sdk.String(imageName(ref)), Architecture: types.ArchitectureValues(m.Architecture), VirtualizationType: sdk.String("hvm"), RootDeviceName: sdk.String(m.Root),
		EnaSupport: sdk.Bool(m.ENA), BootMode: types.BootModeValues(m.BootMode), TpmSupport: types.TpmSupportValues(m.TPM), ImdsSupport: types.ImdsSupportValues(m.IMDS),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: sdk.String(m.Root), Ebs: root}},
		TagSpecifications:   []types.TagSpecification{{ResourceType: types.ResourceTypeImage, Tags: tags}},
	}
	if m.Sriov != "" {
		in.SriovNetSupport = sdk.String(m.Sriov)
	}
	return in
}
