package aws

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// rich returns template data with all fields that are easily lost.
func rich(snapshot string) *types.RequestLaunchTemplateData {
	return &types.RequestLaunchTemplateData{ImageId: sdk.String(testImage), InstanceType: testType, KeyName: sdk.String("key"),
		UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh"))), SecurityGroupIds: []string{"sg-1", "sg-2"},
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: sdk.String("node")},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
			{DeviceName: sdk.String("/dev/xvda"),
				Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(50), VolumeType: types.VolumeTypeGp3,
					VolumeInitializationRate: sdk.Int32(200)}},
			{DeviceName: sdk.String("/dev/sdb"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{SnapshotId: &snapshot, VolumeSize: sdk.Int32(30)}}},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired,
			HttpPutResponseHopLimit: sdk.Int32(2)},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: sdk.Int32(0), AssociatePublicIpAddress: sdk.Bool(false), Groups: []string{"sg-3"}}},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeInstance,
			Tags: []types.Tag{{Key: sdk.String("a"), Value: sdk.String("")}}}},
	}
}

func TestTemplateKeepsUnknownData(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	snap := c.shoot(t, *donor.InstanceId)
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("t-1"), LaunchTemplateData: rich(snap), ClientToken: sdk.String("once"),
		VersionDescription: sdk.String("first")}
	made := ok(c.ec2.CreateLaunchTemplate(t.Context(), in))(t).LaunchTemplate
	if again := ok(c.ec2.CreateLaunchTemplate(t.Context(), in))(t).LaunchTemplate; *again.LaunchTemplateId != *made.LaunchTemplateId {
		t.Error("the same token made another template")
	}
	in.ClientToken = nil
	_, err := c.ec2.CreateLaunchTemplate(t.Context(), in)
	wantCode(t, err, refused, "InvalidLaunchTemplateName.AlreadyExistsException")

	next := &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: made.LaunchTemplateId, SourceVersion: sdk.String("$Latest"), ClientToken: sdk.String("v2"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: sdk.String(testArm)}}
	second := ok(c.ec2.CreateLaunchTemplateVersion(t.Context(), next))(t).LaunchTemplateVersion
	if again := ok(c.ec2.CreateLaunchTemplateVersion(t.Context(), next))(t).LaunchTemplateVersion; *again.VersionNumber != 2 || *second.VersionNumber != 2 {
		t.Errorf("versions are %d and %d for one token, want 2", *second.VersionNumber, *again.VersionNumber)
	}
	versions := ok(c.ec2.DescribeLaunchTemplateVersions(t.Context(),
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: made.LaunchTemplateId, Versions: []string{"1", "$Latest"}}))(t).LaunchTemplateVersions
	for n, want := range []struct {
		image, snapshot string
		isDefault       bool
	}{{testImage, snap, true}, {testArm, "", false}} {
		v, d := versions[n], versions[n].LaunchTemplateData
		if *d.ImageId != want.image || sdk.ToString(d.BlockDeviceMappings[1].Ebs.SnapshotId) != want.snapshot || *v.DefaultVersion != want.isDefault {
			t.Errorf("version %d: image %s, snapshot %v, default %v", *v.VersionNumber, *d.ImageId, d.BlockDeviceMappings[1].Ebs.SnapshotId, *v.DefaultVersion)
		}
		if *d.KeyName != "key" || *d.IamInstanceProfile.Name != "node" || fmt.Sprint(d.SecurityGroupIds) != "[sg-1 sg-2]" ||
			*d.BlockDeviceMappings[0].Ebs.VolumeInitializationRate != 200 ||
			d.MetadataOptions.HttpTokens != types.LaunchTemplateHttpTokensStateRequired || *d.MetadataOptions.HttpPutResponseHopLimit != 2 ||
			fmt.Sprint(d.NetworkInterfaces[0].Groups) != "[sg-3]" || *d.TagSpecifications[0].Tags[0].Key != "a" ||
			d.TagSpecifications[0].ResourceType != types.ResourceTypeInstance {
			t.Errorf("version %d has lost something: %+v", *v.VersionNumber, d)
		}
	}
	_, err = c.ec2.CreateLaunchTemplateVersion(t.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: made.LaunchTemplateId, SourceVersion: sdk.String("9"),
			LaunchTemplateData: next.LaunchTemplateData})
	wantCode(t, err, refused, "InvalidLaunchTemplateId.VersionNotFound")
}

func TestDefaultAndLatest(t *testing.T) {
	c := newCloud(t, nil)
	id := c.template(t, "t-1")
	version := func() int64 {
		out := ok(c.ec2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &id, SourceVersion: sdk.String("1"),
			LaunchTemplateData: &types.RequestLaunchTemplateData{KeyName: sdk.String("k")}}))(t)
		return *out.LaunchTemplateVersion.VersionNumber
	}
	numbers := func() (def, latest int64) {
		out := ok(c.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}}))(t).LaunchTemplates[0]
		return *out.DefaultVersionNumber, *out.LatestVersionNumber
	}
	version()
	version()
	if def, latest := numbers(); def != 1 || latest != 3 {
		t.Errorf("default is %d, latest %d, want 1 and 3", def, latest)
	}
	ok(c.ec2.ModifyLaunchTemplate(t.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: &id, DefaultVersion: sdk.String("2")}))(t)
	out := ok(c.ec2.DeleteLaunchTemplateVersions(t.Context(),
		&ec2.DeleteLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: []string{"2", "3", "9"}}))(t)
	if len(out.SuccessfullyDeletedLaunchTemplateVersions) != 1 || len(out.UnsuccessfullyDeletedLaunchTemplateVersions) != 2 {
		t.Errorf("deleted are %+v, not %+v: want the latest, and neither the default nor one that is not there",
			out.SuccessfullyDeletedLaunchTemplateVersions, out.UnsuccessfullyDeletedLaunchTemplateVersions)
	}
	if def, latest := numbers(); def != 2 || latest != 2 {
		t.Errorf("default is %d, latest %d, want 2 and 2", def, latest)
	}
	if n := version(); n != 4 {
		t.Errorf("the next version is %d, want 4: numbers are not used again", n)
	}
	// An instance of a template has the default version unless the request names a version. Fields of the request
	// override the template.
	i := c.run(t, 1, func(in *ec2.RunInstancesInput) {
		in.ImageId, in.InstanceType = nil, "m6i.xlarge"
		in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: &id}
	})[0]
	got := c.currentInstance(t, *i.InstanceId)
	tags := map[string]string{}
	for _, tag := range got.Tags {
		tags[*tag.Key] = *tag.Value
	}
	if *got.KeyName != "k" || got.InstanceType != "m6i.xlarge" || tags["aws:ec2launchtemplate:version"] != "2" {
		t.Errorf("instance has key %s, type %s, tags %v", *got.KeyName, got.InstanceType, tags)
	}
	ok(c.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id}))(t)
	_, err := c.ec2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id})
	wantCode(t, err, refused, "InvalidLaunchTemplateId.NotFound")
	_, err = c.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"t-1"}})
	wantCode(t, err, refused, "InvalidLaunchTemplateName.NotFoundException")
}

// TestOperatorResources: other principals cannot change the resources of an operator.
func TestOperatorResources(t *testing.T) {
	c := newCloud(t, nil)
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("managed"), LaunchTemplateData: rich("snap-1"),
		Operator: &types.OperatorRequest{Principal: sdk.String("eks.amazonaws.com")}}
	id := ok(c.ec2.CreateLaunchTemplate(t.Context(), in))(t).LaunchTemplate.LaunchTemplateId
	got := ok(c.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{*id}}))(t).LaunchTemplates[0]
	if got.Operator == nil || !*got.Operator.Managed || *got.Operator.Principal != "eks.amazonaws.com" {
		t.Errorf("operator is %+v", got.Operator)
	}
	_, err := c.ec2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: id, LaunchTemplateData: rich("snap-1")})
	wantCode(t, err, refused, "OperationNotPermitted")
	c.advance(time.Minute)
	if *got.LatestVersionNumber != 1 {
		t.Error("it has another version")
	}
}
