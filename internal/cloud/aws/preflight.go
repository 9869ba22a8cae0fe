package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PreflightDisk implements cloud.ImageProvider. EC2 offers a dry run for every call. The error DryRunOperation means that
// the real call would be accepted.
func (p *ImageProvider) PreflightDisk(ctx context.Context, spec cloud.DiskSpec) ([]cloud.Refusal, error) {
	ref, err := parseInstance(spec.Instance)
	if err != nil {
		return nil, err
	}
	m, err := p.readInstance(ctx, ref)
	if err != nil {
		return nil, err
	}
	found := refusalsOf(ref, m)
	settings, err := p.settings(ctx, ref)
	if err != nil {
		return nil, err
	}
	found = append(found, settings...)
	image, err := p.Image(ctx, spec.FamilyVersion)
	if err != nil {
		return nil, err
	}
	if image.State != cloud.Absent {
		found = append(found, cloud.Refuse("VersionExists", fmt.Sprintf("version %s of %s exists", spec.Version, spec.Family.Name), "name another version"))
	}
	root := rootOf(m)
	if root == nil {
		return found, nil
	}
	denied, err := p.denied(ctx, ref, sdk.ToString(root.VolumeId), spec.FamilyVersion, m)
	return append(found, denied...), err
}

// settings returns obstacles in attributes of the instance. EC2 returns a single attribute per request.
func (p *ImageProvider) settings(ctx context.Context, ref instance) ([]cloud.Refusal, error) {
	client := p.ec2(ref.region)
	off, err := client.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: sdk.String(ref.id), Attribute: types.InstanceAttributeNameInstanceInitiatedShutdownBehavior})
	if err != nil {
		return nil, fail("read the shutdown behavior of", ref, err)
	}
	kept, err := client.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: sdk.String(ref.id), Attribute: types.InstanceAttributeNameDisableApiStop})
	if err != nil {
		return nil, fail("read the stop protection of", ref, err)
	}
	var found []cloud.Refusal
	if b := off.InstanceInitiatedShutdownBehavior; b != nil && sdk.ToString(b.Value) == string(types.ShutdownBehaviorTerminate) {
		found = append(found, cloud.Refuse("ShutdownTerminates", fmt.Sprintf("%s is terminated at power-off", ref), "set the shutdown behavior of instance and launch template to stop"))
	}
	if b := kept.DisableApiStop; b != nil && sdk.ToBool(b.Value) {
		found = append(found, cloud.Refuse("StopProtected", fmt.Sprintf("%s is protected from being stopped", ref), "disable stop protection, or capture another node"))
	}
	return found, nil
}

// denied returns the missing permissions of a capture, found by dry runs.
func (p *ImageProvider) denied(ctx context.Context, ref instance, volume string, version cloud.FamilyVersion, m types.Instance) ([]cloud.Refusal, error) {
	client, try := p.ec2(ref.region), sdk.Bool(true)
	attempts := []struct {
		action string
		do     func() error
	}{
		{"ec2:StopInstances", func() error {
			_, err := client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{ref.id}, DryRun: try})
			return err
		}},
		{"ec2:StartInstances", func() error {
			_, err := client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{ref.id}, DryRun: try})
			return err
		}},
		{"ec2:CreateSnapshot", func() error {
			_, err := client.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: sdk.String(volume), DryRun: try})
			return err
		}},
		{"ec2:RegisterImage", func() error {
			// EC2 checks the permission before the missing snapshot.
			like := imageProperties{Architecture: string(m.Architecture), Root: sdk.ToString(m.RootDeviceName)}
			in := like.registration(version, "snap-00000000000000000", nil)
			in.TagSpecifications, in.DryRun = nil, try
			_, err := client.RegisterImage(ctx, in)
			return err
		}},
	}
	var found []cloud.Refusal
	for _, attempt := range attempts {
		denied, err := isDryRunDenied("try "+attempt.action+" on", ref, attempt.do())
		if err != nil {
			return nil, err
		}
		if denied {
			found = append(found, permissionMissing(attempt.action, ref))
		}
	}
	return found, nil
}
