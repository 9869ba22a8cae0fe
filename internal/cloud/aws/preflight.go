package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PreflightDisk implements cloud.ImageProvider.
func (p *ImageProvider) PreflightDisk(ctx context.Context, spec cloud.DiskSpec) ([]cloud.Refusal, error) {
	ref, err := parseInstance(spec.Instance)
	if err != nil {
		return nil, err
	}
	m, err := p.readInstance(ctx, ref)
	if err != nil {
		return nil, err
	}
	found, err := p.refusalsOfDonor(ctx, ref, m, spec)
	if err != nil {
		return nil, err
	}
	uefi, err := deniedUEFI(ctx, p.account, ref, m)
	if err != nil {
		return nil, err
	}
	if uefi != nil {
		found = append(found, *uefi)
	}
	image, err := p.Image(ctx, spec.FamilyVersion)
	if err != nil {
		return nil, err
	}
	if image.State != cloud.Absent {
		found = append(found, cloud.Refuse(cloud.VersionExists, fmt.Sprintf("version %s of %s exists", spec.Version, spec.Family.Name), "name another version"))
	}
	root := rootOf(m)
	if root == nil {
		return found, nil
	}
	if spec.RootDiskGB > 0 { // of a recipe of Cluster API; PreflightRecipe compares launch templates
		size, err := volumeSize(ctx, p.account, ref, sdk.ToString(root.VolumeId))
		if err != nil {
			return nil, err
		}
		if refusal := rootTooLarge(text(spec.Family.Name), ref.String(), size, spec.RootDiskGB); refusal != nil {
			found = append(found, *refusal)
		}
	}
	denied, err := p.denied(ctx, ref, sdk.ToString(root.VolumeId), spec, m)
	return append(found, denied...), err
}

// refusalsOfDonor returns obstacles in the instance itself. A donor whose disk is copied in use is neither stopped nor started.
func (p *ImageProvider) refusalsOfDonor(ctx context.Context, ref instance, m types.Instance, spec cloud.DiskSpec) ([]cloud.Refusal, error) {
	found := refusalsOf(ref, m)
	if !spec.Copies {
		settings, err := p.settings(ctx, ref)
		if cloud.Is(err, cloud.Denied) {
			return append(found, permissionMissing(attributeAction, ref)), nil
		}
		return append(found, settings...), err
	}
	if len(billingOf(nil, nil, m.ProductCodes).Codes) > 0 {
		found = append(found, refuseMarketplace(ref.String()))
	}
	ofType, err := p.refuseType(ctx, ref.region, types.InstanceType(cmp.Or(spec.WorkshopType, string(m.InstanceType))))
	return append(found, ofType...), err
}

// refuseType returns the refusal of an instance type on which a guest cannot find the copy of a disk. See deviceOf.
func (p *ImageProvider) refuseType(ctx context.Context, region string, kind types.InstanceType) ([]cloud.Refusal, error) {
	const other = "set settings.donor.workshopType to a type on Nitro of the same architecture, for example m7i.large, or capture the node in place, if it can return"
	of := text("instance type " + string(kind))
	out, err := p.ec2(region).DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{kind}})
	switch {
	case isCode(err, "InvalidInstanceType"):
		return []cloud.Refusal{cloud.Refuse(cloud.PoolNotCopyable, fmt.Sprintf("%s of the workshop does not exist in %s", of, region), other)}, nil
	case err != nil:
		if err = fail("read", of, err); cloud.Is(err, cloud.Denied) {
			return []cloud.Refusal{permissionMissing(typesAction, of)}, nil
		}
		return nil, err
	case slices.ContainsFunc(out.InstanceTypes, func(t types.InstanceTypeInfo) bool { return t.Hypervisor == types.InstanceTypeHypervisorXen }):
		return []cloud.Refusal{cloud.Refuse(cloud.PoolNotCopyable,
			fmt.Sprintf("%s of the workshop runs on Xen, where a copied disk has no serial number by which Kamino could find it", of), other)}, nil
	}
	return nil, nil
}

// settings returns obstacles in attributes of the instance. EC2 returns a single attribute per request.
func (p *ImageProvider) settings(ctx context.Context, ref instance) ([]cloud.Refusal, error) {
	client := p.ec2(ref.region)
	off, err := client.DescribeInstanceAttribute(ctx,
		&ec2.DescribeInstanceAttributeInput{InstanceId: sdk.String(ref.id), Attribute: types.InstanceAttributeNameInstanceInitiatedShutdownBehavior})
	if err != nil {
		return nil, fail("read the shutdown behavior of", ref, err)
	}
	kept, err := client.DescribeInstanceAttribute(ctx,
		&ec2.DescribeInstanceAttributeInput{InstanceId: sdk.String(ref.id), Attribute: types.InstanceAttributeNameDisableApiStop})
	if err != nil {
		return nil, fail("read the stop protection of", ref, err)
	}
	var found []cloud.Refusal
	if b := off.InstanceInitiatedShutdownBehavior; b != nil && sdk.ToString(b.Value) == string(types.ShutdownBehaviorTerminate) {
		found = append(found, cloud.Refuse(cloud.StopTerminates, fmt.Sprintf("%s is terminated at power-off", ref),
			"set the shutdown behavior of instance and launch template to stop"))
	}
	if b := kept.DisableApiStop; b != nil && sdk.ToBool(b.Value) {
		found = append(found, cloud.Refuse(cloud.DonorProtected, fmt.Sprintf("%s is protected from being stopped", ref),
			"disable stop protection, or capture another node"))
	}
	return found, nil
}

// denied returns the missing permissions of a capture. IAM answers, and dry runs answer where IAM does not allow.
func (p *ImageProvider) denied(ctx context.Context, ref instance, volume string, spec cloud.DiskSpec, m types.Instance) ([]cloud.Refusal, error) {
	known, err := permissionReader{p.account}.ofEC2(ctx, ref.region)
	if err != nil {
		return nil, err
	}
	client, try := p.ec2(ref.region), sdk.Bool(true)
	attempts := []dryRun{
		{stopAction, false, func() error {
			_, err := client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{ref.id}, DryRun: try})
			return err
		}},
		{startAction, false, func() error {
			_, err := client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{ref.id}, DryRun: try})
			return err
		}},
		{copyAction, false, func() error {
			in := &ec2.CreateSnapshotInput{VolumeId: sdk.String(volume), DryRun: try,
				TagSpecifications: tagSpecification(types.ResourceTypeSnapshot, sampleTags)}
			_, err := client.CreateSnapshot(ctx, in)
			return err
		}},
		{registerAction, false, func() error {
			// EC2 checks the permission before the missing snapshot.
			like := imageProperties{Architecture: string(m.Architecture), Root: sdk.ToString(m.RootDeviceName)}
			in := like.registration(spec.FamilyVersion, "snap-00000000000000000", toTags(nil, sampleTags))
			in.DryRun = try
			_, err := client.RegisterImage(ctx, in)
			return err
		}},
	}
	if spec.Copies {
		attempts = slices.DeleteFunc(attempts, func(d dryRun) bool { return d.action == stopAction || d.action == startAction })
	}
	return deniedDryRuns(attempts, known, ref)
}

// sampleTags are Kamino's tags in dry runs. Policies may have conditions on the tags of a new resource.
var sampleTags = map[string]string{tagSnapshot: "dry-run", tagMachine: "dry-run", tagFamily: "dry-run", tagVersion: "dry-run"}

func tagSpecification(of types.ResourceType, tags map[string]string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: of, Tags: toTags(nil, tags)}}
}
