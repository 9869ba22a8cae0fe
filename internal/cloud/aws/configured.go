package aws

import (
	"context"
	"encoding/json"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// templateOf returns the launch template version of an instance, from the tags that EC2 adds at the launch.
func templateOf(m ec2types.Instance) types.LaunchTemplateSpecification {
	return types.LaunchTemplateSpecification{
		LaunchTemplateId: sdk.String(tagOf(m.Tags, "aws:ec2launchtemplate:id")), Version: sdk.String(tagOf(m.Tags, "aws:ec2launchtemplate:version")),
	}
}

// recipeOf returns what an instance was built from besides the image and the type; empty if this process has not read the version.
func (a *account) recipeOf(in string, m ec2types.Instance) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.versions[versionKey(group{region: in}, templateOf(m))]
	if !found || known.LaunchTemplateVersion == nil || known.LaunchTemplateData == nil {
		return ""
	}
	data := *known.LaunchTemplateData
	data.ImageId, data.InstanceType, data.TagSpecifications = nil, "", nil
	data.BlockDeviceMappings = nil
	for _, d := range known.LaunchTemplateData.BlockDeviceMappings { // a new version has another snapshot, and perhaps another rate
		if d.Ebs != nil && d.Ebs.VolumeSize != nil {
			data.BlockDeviceMappings = append(data.BlockDeviceMappings, ec2types.LaunchTemplateBlockDeviceMapping{
				DeviceName: d.DeviceName, Ebs: &ec2types.LaunchTemplateEbsBlockDevice{VolumeSize: d.Ebs.VolumeSize},
			})
		}
	}
	text, err := json.Marshal(data)
	if err != nil {
		return ""
	}
	return digest(string(text))
}

// readTemplates reads the launch template versions of instances that this process has not read: a request per template, once. A version
// that cannot be read stays unknown.
func (a *account) readTemplates(ctx context.Context, ref group, of []ec2types.Instance) {
	missing := map[string][]string{}
	a.mu.Lock()
	for _, m := range of {
		t := templateOf(m)
		id, version := sdk.ToString(t.LaunchTemplateId), sdk.ToString(t.Version)
		if _, found := a.versions[versionKey(ref, t)]; !found && !a.unreadable[versionKey(ref, t)] && id != "" && !slices.Contains(missing[id], version) {
			missing[id] = append(missing[id], version)
		}
	}
	a.mu.Unlock()
	for id, versions := range missing {
		spec := types.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(id)}
		out, err := a.ec2(ref.region).DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: versions})
		if err == nil {
			for i := range out.LaunchTemplateVersions {
				v := &out.LaunchTemplateVersions[i]
				spec.Version = sdk.String(recipe{number: sdk.ToInt64(v.VersionNumber)}.text())
				rememberVersion(a, ref, spec, v)
			}
		} else if kind := cloud.KindOf(fail("read", ref, err)); kind == cloud.Throttled || kind == cloud.Unavailable {
			continue
		}
		a.mu.Lock()
		for _, version := range versions {
			spec.Version = sdk.String(version)
			_, found := a.versions[versionKey(ref, spec)]
			a.unreadable[versionKey(ref, spec)] = !found
		}
		a.mu.Unlock()
	}
}
