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

// imageProperties holds the donor's properties for RegisterImage, whose defaults fit no current instance. A tag of the snapshot
// has the text, because donor and image may be gone later. JSON names are short: a tag has at most 256 characters.
type imageProperties struct {
	Architecture string `json:"a"`
	Root         string `json:"r"`
	ENA          bool   `json:"e,omitempty"`
	Sriov        string `json:"s,omitempty"`
	BootMode     string `json:"b,omitempty"`
	TPM          string `json:"t,omitempty"`
	IMDS         string `json:"i,omitempty"`
	// Donor is the instance with UEFI variables for the image; empty without variables.
	Donor string `json:"d,omitempty"`
	// Volume is the type of the root volume. Iops and Throughput (MiB/s) are set if the type has them.
	Volume     string `json:"v,omitempty"`
	Iops       int32  `json:"o,omitempty"`
	Throughput int32  `json:"p,omitempty"`
}

func (m imageProperties) String() string {
	text, _ := json.Marshal(m) // plain values
	return string(text)
}

func parseProperties(text string) (m imageProperties, err error) {
	err = json.Unmarshal([]byte(text), &m)
	if err == nil && (m.Architecture == "" || m.Root == "") {
		err = fmt.Errorf("no architecture or root device")
	}
	return m, err
}

// rootOf returns the instance's root volume; nil without an EBS root volume.
func rootOf(m types.Instance) *types.EbsInstanceBlockDevice {
	for _, d := range m.BlockDeviceMappings {
		if d.Ebs != nil && sdk.ToString(d.DeviceName) == sdk.ToString(m.RootDeviceName) {
			return d.Ebs
		}
	}
	return nil
}

// launchedAt returns the creation time. LaunchTime of AWS is the last start, but the root volume is attached once.
func launchedAt(m types.Instance) time.Time {
	if root := rootOf(m); root != nil && root.AttachTime != nil {
		return *root.AttachTime
	}
	return sdk.ToTime(m.LaunchTime)
}

// propertiesOf collects the properties that RegisterImage needs.
func (a *account) propertiesOf(ctx context.Context, ref instance, m types.Instance, volume string) (imageProperties, error) {
	out := imageProperties{
		Architecture: string(m.Architecture), Root: sdk.ToString(m.RootDeviceName), ENA: sdk.ToBool(m.EnaSupport), Sriov: sdk.ToString(m.SriovNetSupport),
		BootMode: string(m.BootMode), TPM: sdk.ToString(m.TpmSupport),
	}
	if hasUEFI(m) {
		data, err := uefiData(ctx, a, ref)
		if err != nil {
			return imageProperties{}, err
		}
		if data != "" {
			out.Donor = ref.id
		}
	}
	client := a.ec2(ref.region)
	volumes, err := client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{volume}})
	if err != nil {
		return imageProperties{}, fail("read the root volume of", ref, err)
	}
	for _, v := range volumes.Volumes {
		out.Volume = string(v.VolumeType)
		if v.VolumeType == types.VolumeTypeIo1 || v.VolumeType == types.VolumeTypeIo2 || v.VolumeType == types.VolumeTypeGp3 {
			out.Iops = sdk.ToInt32(v.Iops)
		}
		out.Throughput = sdk.ToInt32(v.Throughput)
	}
	im, err := imageFromCache(ctx, a, ref.region, sdk.ToString(m.ImageId))
	if err != nil {
		return imageProperties{}, err
	}
	if im == nil { // only the instance is known
		if o := m.MetadataOptions; o != nil && o.HttpTokens == types.HttpTokensStateRequired {
			out.IMDS = string(types.ImdsSupportValuesV20)
		}
	} else {
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

// registration returns the request that registers the snapshot as an image. Encryption follows the snapshot and must be
// absent.
func (m imageProperties) registration(ref cloud.FamilyVersion, snapshot string, tags []types.Tag) *ec2.RegisterImageInput {
	root := &types.EbsBlockDevice{SnapshotId: sdk.String(snapshot), DeleteOnTermination: sdk.Bool(true), VolumeType: types.VolumeType(m.Volume)}
	if m.Iops > 0 {
		root.Iops = sdk.Int32(m.Iops)
	}
	if m.Throughput > 0 {
		root.Throughput = sdk.Int32(m.Throughput)
	}
	in := &ec2.RegisterImageInput{
		Name: sdk.String(imageName(ref)), Architecture: types.ArchitectureValues(m.Architecture), VirtualizationType: sdk.String("hvm"),
		RootDeviceName: sdk.String(m.Root), EnaSupport: sdk.Bool(m.ENA), BootMode: types.BootModeValues(m.BootMode),
		TpmSupport: types.TpmSupportValues(m.TPM), ImdsSupport: types.ImdsSupportValues(m.IMDS),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: sdk.String(m.Root), Ebs: root}},
		TagSpecifications:   []types.TagSpecification{{ResourceType: types.ResourceTypeImage, Tags: tags}},
	}
	if m.Sriov != "" {
		in.SriovNetSupport = sdk.String(m.Sriov)
	}
	return in
}
