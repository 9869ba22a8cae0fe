package aws

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// recipe is the recipe of a group: a version of a launch template, by number or as $Latest or $Default.
type recipe struct {
	group types.AutoScalingGroup
	// spec is the group's reference to the version; nil without a launch template.
	spec *types.LaunchTemplateSpecification
	// number and data are those of the version; 0 and nil if the version does not exist.
	number int64
	data   *ec2types.ResponseLaunchTemplateData
	// isDefault is true if the version is the default of the template.
	isDefault bool
	// image in Kamino's text form; empty if unknown.
	image string
	// operator is the AWS service with the exclusive right to change the template; usually empty.
	operator string
	// capa is as in PoolProvider.
	capa bool
	// parameter has the image of a group of kOps.
	parameter imageParameter
}

// pinned reports whether the group names the version by number.
func (r recipe) pinned() bool { return r.spec != nil && sdk.ToString(r.spec.Version) == r.text() }

// text returns the number as in a group.
func (r recipe) text() string { return strconv.FormatInt(r.number, 10) }

// userData is the only part of a recipe on AWS, and always stays. The user data itself must handle a node that is already
// set up.
const userData = "userData"

// parts returns the parts of the recipe besides the image.
func (r recipe) parts() []cloud.RecipeField {
	if r.data == nil || sdk.ToString(r.data.UserData) == "" {
		return nil
	}
	return []cloud.RecipeField{{Kind: userData}}
}

// defaultVersion names the default version of a launch template.
const defaultVersion = "$Default"

// specOf returns a group's reference to the launch template; nil for a launch configuration. AWS omits the version of a
// group that was made without a version, and means the default version.
func specOf(g types.AutoScalingGroup) *types.LaunchTemplateSpecification {
	spec := g.LaunchTemplate
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		spec = m.LaunchTemplate.LaunchTemplateSpecification
	}
	if spec == nil || sdk.ToString(spec.Version) != "" {
		return spec
	}
	return &types.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId, LaunchTemplateName: spec.LaunchTemplateName,
		Version: sdk.String(defaultVersion)}
}

// sameSpec reports whether two references have the same template and version text.
func sameSpec(a, b *types.LaunchTemplateSpecification) bool {
	return a != nil && b != nil && sdk.ToString(a.LaunchTemplateId) == sdk.ToString(b.LaunchTemplateId) && sdk.ToString(a.Version) == sdk.ToString(b.Version)
}

// recipe reads the recipe of a group. A missing launch template version is no error: the group exists but cannot grow.
func (a *account) recipe(ctx context.Context, ref group) (recipe, error) {
	g, err := a.group(ctx, ref)
	if err != nil {
		return recipe{}, err
	}
	r := recipe{group: g, spec: specOf(g)}
	if r.spec == nil {
		return r, nil
	}
	v, err := a.version(ctx, ref, *r.spec)
	if err != nil || v == nil {
		return r, err
	}
	r.number, r.data, r.isDefault = sdk.ToInt64(v.VersionNumber), v.LaunchTemplateData, sdk.ToBool(v.DefaultVersion)
	if v.Operator != nil && sdk.ToBool(v.Operator.Managed) {
		r.operator = sdk.ToString(v.Operator.Principal)
	}
	if r.data != nil {
		r.image, err = a.imageTextOf(ctx, ref.region, sdk.ToString(r.data.ImageId))
	}
	if name := r.parameterName(); name != "" && err == nil {
		r.parameter, err = readParameter(ctx, a, ref.region, name)
	}
	return r, err
}

// version reads the launch template version of a group; nil if the version does not exist. A numbered version never
// changes. Its deletion shows after versionLife, or in the uncached read before a write.
func (a *account) version(ctx context.Context, ref group, spec types.LaunchTemplateSpecification) (*ec2types.LaunchTemplateVersion, error) {
	id, named := sdk.ToString(spec.LaunchTemplateId), sdk.ToString(spec.Version)
	key := versionKey(ref, spec)
	a.mu.Lock()
	known, found := a.versions[key]
	a.mu.Unlock()
	if found && a.config.Now().Sub(known.at) < versionLife && !cloud.IsUncached(ctx) {
		return known.LaunchTemplateVersion, nil
	}
	out, err := a.ec2(ref.region).DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: sdk.String(id), Versions: []string{named}})
	switch {
	case isCode(err, templateGone...), err == nil && len(out.LaunchTemplateVersions) == 0:
		forgetVersion(a, ref, spec)
		return nil, nil
	case err != nil:
		return nil, fail("read the launch template of", ref, err)
	}
	v := &out.LaunchTemplateVersions[0]
	if _, err := strconv.ParseInt(named, 10, 64); err != nil { // $Latest and $Default change their meaning
		return v, nil
	}
	rememberVersion(a, ref, spec, v)
	return v, nil
}

// rememberVersion stores a numbered version, which never changes.
func rememberVersion(a *account, ref group, spec types.LaunchTemplateSpecification, v *ec2types.LaunchTemplateVersion) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions[versionKey(ref, spec)] = seenVersion{v, a.config.Now()}
}

func versionKey(ref group, spec types.LaunchTemplateSpecification) string {
	return ref.region + "/template/" + sdk.ToString(spec.LaunchTemplateId) + "/" + sdk.ToString(spec.Version)
}

func forgetVersion(a *account, ref group, spec types.LaunchTemplateSpecification) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.versions, versionKey(ref, spec))
}

// versionLife is how long a read version is assumed to exist.
const versionLife = time.Hour

// seenVersion is a launch template version with the time of the read.
type seenVersion struct {
	*ec2types.LaunchTemplateVersion
	at time.Time
}

// templateGone are the error codes of a missing launch template or version. Source: "Error codes for the Amazon EC2 API".
var templateGone = []string{"InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.VersionNotFound", "InvalidLaunchTemplateName.NotFoundException"}

// refusalsOfTemplate returns the reasons why the template cannot name another image.
func refusalsOfTemplate(ref group, r recipe) []cloud.Refusal {
	of := func(reason, obstacle, remedy string) cloud.Refusal {
		return cloud.Refuse(reason, fmt.Sprintf("%s: %s", ref, obstacle), remedy)
	}
	switch {
	case r.spec == nil:
		return []cloud.Refusal{of(cloud.TemplateUnsuitable,
			"the group has a launch configuration, which cannot be changed", "give the group a launch template")}
	case r.data == nil:
		return []cloud.Refusal{of(reasonNoTemplate,
			fmt.Sprintf("version %s of launch template %s does not exist, so the group cannot grow",
				sdk.ToString(r.spec.Version), sdk.ToString(r.spec.LaunchTemplateId)),
			"point the group at an existing version")}
	}
	var found []cloud.Refusal
	switch image := sdk.ToString(r.data.ImageId); {
	case strings.HasPrefix(image, "resolve:"):
		found = append(found, of(cloud.TemplateUnsuitable, "the launch template reads the image from "+image, "name the image's ID in the launch template"))
	case image == "":
		found = append(found, of(cloud.TemplateUnsuitable, "the launch template names no image", "name the image's ID in the launch template"))
	}
	if m := r.group.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		for _, o := range m.LaunchTemplate.Overrides {
			if o.LaunchTemplateSpecification != nil || sdk.ToString(o.ImageId) != "" {
				found = append(found,
					of(cloud.TemplateUnsuitable, fmt.Sprintf("the mixed instances policy overrides the launch template for %s, which would keep the old image",
						or(sdk.ToString(o.InstanceType), "some instances")),
						"use a single launch template for all instances"))
				break
			}
		}
	}
	for _, d := range r.data.BlockDeviceMappings {
		if d.Ebs != nil && sdk.ToString(d.Ebs.SnapshotId) != "" {
			found = append(found, of(cloud.TemplateUnsuitable,
				fmt.Sprintf("the launch template makes %s from snapshot %s, and a new template version would lose the snapshot",
					sdk.ToString(d.DeviceName), sdk.ToString(d.Ebs.SnapshotId)),
				"remove the snapshot from the launch template's block device mappings"))
		}
	}
	return found
}

// errorOfTemplate returns the first refusal as the error of a write. A missing template is NotFound, because a person may
// create the template again.
func errorOfTemplate(op string, ref group, r recipe) error {
	refusal := refusalsOfTemplate(ref, r)[0]
	err := refusal.Error(op, ref.String())
	if refusal.Reason == reasonNoTemplate {
		err.Kind = cloud.NotFound
	}
	return err
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// setVersion sets the group's template version by number and leaves all else unchanged. AWS has no conditional update, so the
// caller reads the group before and after.
func (p *PoolProvider) setVersion(ctx context.Context, op string, ref group, r recipe, number int64) error {
	spec := &types.LaunchTemplateSpecification{LaunchTemplateId: r.spec.LaunchTemplateId, Version: sdk.String(strconv.FormatInt(number, 10))}
	in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(ref.name), LaunchTemplate: spec}
	if m := r.group.MixedInstancesPolicy; m != nil {
		template := *m.LaunchTemplate
		template.LaunchTemplateSpecification = spec
		in.LaunchTemplate, in.MixedInstancesPolicy = nil, &types.MixedInstancesPolicy{InstancesDistribution: m.InstancesDistribution, LaunchTemplate: &template}
	}
	// Not verified on AWS, promotions: a group uses a new version of its template at once, or returns an error.
	_, err := p.autoScaling(ref.region).UpdateAutoScalingGroup(ctx, in)
	return fail(op, ref, err)
}

// templateWithImage creates a template version with the new image only, and returns the number. The client token makes repeated
// calls return the same version.
func (p *PoolProvider) templateWithImage(ctx context.Context, op string, ref group, r recipe, im ec2types.Image, image string) (int64, error) {
	ami := sdk.ToString(im.ImageId)
	data := &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(ami)}
	if rate, has := rateOf(im); has {
		data.BlockDeviceMappings = withInitializationRate(r.data.BlockDeviceMappings, sdk.ToString(im.RootDeviceName), rate)
	}
	out, err := p.ec2(ref.region).CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: r.spec.LaunchTemplateId, SourceVersion: sdk.String(r.text()),
		ClientToken:        sdk.String("kamino-" + digest(sdk.ToString(r.spec.LaunchTemplateId)+" "+r.text()+" "+ami)),
		VersionDescription: sdk.String(shorten("Kamino: version "+r.text()+" with "+image, maxDescription)),
		LaunchTemplateData: data,
	})
	if isCode(err, templateGone...) { // since the read
		forgetVersion(p.account, ref, *r.spec)
		r.data = nil
		return 0, errorOfTemplate(op, ref, r)
	}
	if err != nil {
		return 0, fail(op, ref, err)
	}
	made := out.LaunchTemplateVersion
	if made == nil || made.LaunchTemplateData == nil || sdk.ToString(made.LaunchTemplateData.ImageId) != ami {
		return 0, &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
			Message: "AWS made a launch template version without image " + ami + ": try again"}
	}
	number := sdk.ToInt64(made.VersionNumber)
	rememberVersion(p.account, ref, types.LaunchTemplateSpecification{LaunchTemplateId: r.spec.LaunchTemplateId,
		Version: sdk.String(strconv.FormatInt(number, 10))}, made)
	return number, nil
}

// Limits of an initialization rate, in MiB/s. Source: EbsBlockDevice, VolumeInitializationRate.
const minRate, maxRate = 100, 300

// rateOf returns the initialization rate of an image. AWS refuses to launch with a rate outside the limits.
func rateOf(im ec2types.Image) (rate int32, has bool) {
	n, _ := strconv.ParseInt(tagOf(im.Tags, tagRate), 10, 32)
	return int32(n), n >= minRate && n <= maxRate
}

// withInitializationRate returns the mappings with the initialization rate of the root volume. A new version's mappings replace all
// mappings of the source version.
func withInitializationRate(mappings []ec2types.LaunchTemplateBlockDeviceMapping, root string, rate int32) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	var out []ec2types.LaunchTemplateBlockDeviceMappingRequest
	there := false
	for _, m := range mappings {
		to := ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName, NoDevice: m.NoDevice, VirtualName: m.VirtualName}
		if m.Ebs != nil {
			ebs := ec2types.LaunchTemplateEbsBlockDeviceRequest(*m.Ebs)
			to.Ebs = &ebs
		}
		if sdk.ToString(m.DeviceName) == root {
			if to.Ebs == nil {
				to.Ebs = &ec2types.LaunchTemplateEbsBlockDeviceRequest{}
			}
			to.Ebs.VolumeInitializationRate, there = sdk.Int32(rate), true
		}
		out = append(out, to)
	}
	if !there {
		out = append(out, ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: sdk.String(root),
			Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeInitializationRate: sdk.Int32(rate)}})
	}
	return out
}

// maxDescription is the largest length of a version's description. Source: CreateLaunchTemplateVersion,
// VersionDescription.
const maxDescription = 255
