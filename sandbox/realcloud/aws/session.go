package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// session is a run of the program on AWS.
type session struct {
	*realcloud.Course
	guard
	ec2    *ec2.Client
	groups *autoscaling.Client
	iam    *iam.Client
	sts    *sts.Client

	image          types.Image
	network        string
	zones, subnets []string
	template       string
	// rebuilt is what the replacement of a root volume showed, disabled what a disabled image did.
	rebuilt  *rebuild
	disabled *disabledImage
}

var _ realcloud.Session = (*session)(nil)

// stubborn retries as the SDK does, but no call that the guard refused.
type stubborn struct{ *retry.Standard }

// IsErrorRetryable implements aws.Retryer.
func (s stubborn) IsErrorRetryable(err error) bool {
	return realcloud.Retry(err) && s.Standard.IsErrorRetryable(err)
}

// open makes a session. All clients send through the course.
func open(config sdk.Config, c *realcloud.Course) *session {
	s := &session{Course: c}
	s.guard = guard{owned: map[string]bool{}, hasTag: s.hasTag}
	config = config.Copy()
	config.HTTPClient = c
	config.Retryer = func() sdk.Retryer { return stubborn{retry.NewStandard()} }
	s.ec2, s.groups = ec2.NewFromConfig(config), autoscaling.NewFromConfig(config)
	s.iam, s.sts = iam.NewFromConfig(config), sts.NewFromConfig(config)
	return s
}

// Who implements realcloud.Session.
func (s *session) Who(ctx context.Context) (string, error) {
	out, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return sdk.ToString(out.Account), nil
}

// hasTag reports whether the cloud shows the tag of the run on a resource, or on the group of that name.
func (s *session) hasTag(ctx context.Context, id string) (is bool, err error) {
	err = s.Until(ctx, "the tag of "+id, 2*realcloud.Settled, func() (bool, error) {
		if id == s.Name() {
			g, err := s.group(ctx)
			is = g != nil && slices.ContainsFunc(g.Tags, func(t astypes.TagDescription) bool {
				return sdk.ToString(t.Key) == realcloud.TagRun && sdk.ToString(t.Value) == s.Run
			})
			return is, err
		}
		out, err := s.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{filter("resource-id", id), filter("key", realcloud.TagRun)}})
		if err != nil {
			return false, err
		}
		is = slices.ContainsFunc(out.Tags, func(t types.TagDescription) bool {
			return sdk.ToString(t.ResourceId) == id && sdk.ToString(t.Value) == s.Run
		})
		return is || len(out.Tags) > 0, nil
	})
	return is, err
}

// Code implements realcloud.Session.
func (s *session) Code(err error) string { return code(err) }

// code is the error code of the cloud; empty for other errors.
func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: sdk.String(name), Values: values}
}

// ours selects what has the tag of the run.
func (s *session) ours() []types.Filter {
	return []types.Filter{filter("tag:"+realcloud.TagRun, s.Run)}
}

// tagged are the tags of a new resource.
func (s *session) tagged(kind types.ResourceType) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{
		{Key: sdk.String(realcloud.TagRun), Value: sdk.String(s.Run)},
		{Key: sdk.String(realcloud.TagEnd), Value: sdk.String(s.End.Format(time.RFC3339))},
	}}}
}

// Base implements realcloud.Session.
func (s *session) Base(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"find the public image and two zones", s.findImage}, {"make the network", s.makeNetwork}, {"make the launch template", s.makeTemplate},
		{"make the group", s.makeGroup}, {"make what keeps a client token", s.keepTokens},
	} {
		fmt.Fprintf(s.Out, "%s\n", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// findImage finds Amazon's smallest current image, and two zones.
func (s *session) findImage(ctx context.Context) error {
	out, err := s.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []types.Filter{
		filter("name", "al2023-ami-minimal-2023.*-x86_64"), filter("state", "available")}})
	if err != nil {
		return err
	}
	for _, image := range out.Images { // the names contain the date
		if s.image.ImageId == nil || sdk.ToString(image.Name) > sdk.ToString(s.image.Name) {
			s.image = image
		}
	}
	if s.image.ImageId == nil {
		return errors.New("the region has no minimal image of Amazon Linux 2023")
	}
	zones, err := s.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return err
	}
	for _, z := range zones.AvailabilityZones {
		if z.State == types.AvailabilityZoneStateAvailable && sdk.ToString(z.ZoneType) == "availability-zone" && len(s.zones) < 2 {
			s.zones = append(s.zones, sdk.ToString(z.ZoneName))
		}
	}
	if len(s.zones) < 2 {
		return errors.New("the region has no two zones")
	}
	return nil
}

// makeNetwork makes a VPC with a subnet in each of two zones. Nothing can reach it, and nothing in it reaches the Internet.
func (s *session) makeNetwork(ctx context.Context) error {
	found, err := s.networks(ctx)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		s.network = found[0]
	} else {
		out, err := s.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: sdk.String("10.213.0.0/24"), TagSpecifications: s.tagged(types.ResourceTypeVpc)})
		if err != nil {
			return err
		}
		s.network = sdk.ToString(out.Vpc.VpcId)
		if err := s.Appears(ctx, "VPC", func() (bool, error) {
			found, err := s.networks(ctx)
			return len(found) > 0, err
		}); err != nil {
			return err
		}
	}
	for n, zone := range s.zones {
		if err := s.makeSubnet(ctx, zone, fmt.Sprintf("10.213.0.%d/25", n*128)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) makeSubnet(ctx context.Context, zone, block string) error {
	look := func() (string, error) {
		out, err := s.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: append(s.ours(), filter("availability-zone", zone))})
		if err != nil || len(out.Subnets) == 0 {
			return "", err
		}
		return sdk.ToString(out.Subnets[0].SubnetId), nil
	}
	id, err := look()
	if err != nil {
		return err
	}
	if id == "" {
		out, err := s.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: sdk.String(s.network), AvailabilityZone: sdk.String(zone),
			CidrBlock: sdk.String(block), TagSpecifications: s.tagged(types.ResourceTypeSubnet)})
		if err != nil {
			return err
		}
		id = sdk.ToString(out.Subnet.SubnetId)
		if err := s.Appears(ctx, "subnet", func() (bool, error) {
			seen, err := look()
			return seen != "", err
		}); err != nil {
			return err
		}
	}
	s.subnets = append(s.subnets, id)
	return nil
}

// networks are the VPCs of the run.
func (s *session) networks(ctx context.Context) ([]string, error) {
	out, err := s.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: s.ours()})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, n := range out.Vpcs {
		all = append(all, sdk.ToString(n.VpcId))
	}
	return all, nil
}

// recipe is the data of a version of the launch template.
func (s *session) recipe(change func(*types.RequestLaunchTemplateData)) *types.RequestLaunchTemplateData {
	data := &types.RequestLaunchTemplateData{ImageId: s.image.ImageId, InstanceType: smallType,
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired}}
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface} {
		data.TagSpecifications = append(data.TagSpecifications,
			types.LaunchTemplateTagSpecificationRequest{ResourceType: kind, Tags: s.tagged(kind)[0].Tags})
	}
	if change != nil {
		change(data)
	}
	return data
}

func (s *session) templates(ctx context.Context) ([]string, error) {
	out, err := s.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: s.ours()})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, t := range out.LaunchTemplates {
		all = append(all, sdk.ToString(t.LaunchTemplateId))
	}
	return all, nil
}

func (s *session) makeTemplate(ctx context.Context) error {
	found, err := s.templates(ctx)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		s.template = found[0]
		return nil
	}
	out, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String(s.Name()),
		ClientToken: sdk.String(s.Name()), LaunchTemplateData: s.recipe(nil), TagSpecifications: s.tagged(types.ResourceTypeLaunchTemplate)})
	if err != nil {
		return err
	}
	s.template = sdk.ToString(out.LaunchTemplate.LaunchTemplateId)
	return s.Appears(ctx, "launch template", func() (bool, error) {
		found, err := s.templates(ctx)
		return len(found) > 0, err
	})
}

// version makes a version of the template and returns its number. Repeated, it is the same version.
func (s *session) version(ctx context.Context, what string, change func(*types.RequestLaunchTemplateData)) (string, error) {
	out, err := s.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(s.template),
		ClientToken: sdk.String(s.Name() + "-" + what), VersionDescription: sdk.String(what), LaunchTemplateData: s.recipe(change)})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(sdk.ToInt64(out.LaunchTemplateVersion.VersionNumber)), nil
}
