package realcloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
)

// world is where a session runs: the real cloud in real time, or the simulated one.
type world struct {
	// config has the credential, the region and the HTTP client, which the guard wraps.
	config sdk.Config
	now    func() time.Time
	wait   func(context.Context, time.Duration) error
	// intercept and saw are the wire's; nil for nothing.
	intercept func(ctx context.Context, action string, effect effect, after bool) error
	saw       func(Call)
}

// session is a run of the program against a cloud.
type session struct {
	world
	guard  *guard
	wire   *wire
	ec2    *ec2.Client
	groups *autoscaling.Client
	iam    *iam.Client
	sts    *sts.Client
	out    io.Writer
	report *Report

	image          types.Image
	network        string
	zones, subnets []string
	template       string
	// rebuilt is what the replacement of a root volume showed.
	rebuilt *rebuild
}

// lookEvery is the pause between two looks at unfinished work, lookFor how long a look may go on by default.
const (
	lookEvery = 5 * time.Second
	lookFor   = 15 * time.Minute
	// settled is longer than a change may take until all answers show it.
	settled = time.Minute
)

// stubborn retries as the SDK does, but no call that the guard refused.
type stubborn struct{ *retry.Standard }

// IsErrorRetryable implements aws.Retryer.
func (s stubborn) IsErrorRetryable(err error) bool {
	return !isRefusal(err) && !errors.Is(err, context.Canceled) && s.Standard.IsErrorRetryable(err)
}

// open makes a session. All clients share the guard.
func open(w world, out io.Writer, run string, end time.Time) *session {
	under := w.config.HTTPClient
	s := &session{world: w, out: out, wire: &wire{under: under, now: w.now, start: w.now(), intercept: w.intercept, saw: w.saw}}
	s.guard = &guard{wire: s.wire, run: run, end: end.UTC().Truncate(time.Second), now: w.now, owned: map[string]bool{}, hasTag: s.hasTag}
	config := w.config.Copy()
	config.HTTPClient = s.guard
	config.Retryer = func() sdk.Retryer { return stubborn{retry.NewStandard()} }
	s.ec2, s.groups = ec2.NewFromConfig(config), autoscaling.NewFromConfig(config)
	s.iam, s.sts = iam.NewFromConfig(config), sts.NewFromConfig(config)
	s.report = newReport(run, w.config.Region, w.now())
	return s
}

// hasTag reports whether the cloud shows the tag of the run on a resource, or on the group of that name.
func (s *session) hasTag(ctx context.Context, id string) (is bool, err error) {
	err = s.until(ctx, "the tag of "+id, 2*settled, func() (bool, error) {
		if id == s.guard.name() {
			g, err := s.group(ctx)
			is = g != nil && slices.ContainsFunc(g.Tags, func(t astypes.TagDescription) bool {
				return sdk.ToString(t.Key) == TagRun && sdk.ToString(t.Value) == s.guard.run
			})
			return is, err
		}
		out, err := s.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{filter("resource-id", id), filter("key", TagRun)}})
		if err != nil {
			return false, err
		}
		is = slices.ContainsFunc(out.Tags, func(t types.TagDescription) bool {
			return sdk.ToString(t.ResourceId) == id && sdk.ToString(t.Value) == s.guard.run
		})
		return is || len(out.Tags) > 0, nil
	})
	return is, err
}

// errNever is the end of a look that saw nothing in its time.
var errNever = errors.New("not seen")

// until looks until done, at most for a while.
func (s *session) until(ctx context.Context, what string, most time.Duration, done func() (bool, error)) error {
	deadline := s.now().Add(most)
	for {
		is, err := done()
		if err != nil || is {
			return err
		}
		if !s.now().Before(deadline) {
			return fmt.Errorf("%s: %w in %s", what, errNever, most)
		}
		if err := s.wait(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// watch looks for a whole while, or until done.
func (s *session) watch(ctx context.Context, most time.Duration, done func() (bool, error)) (bool, error) {
	err := s.until(ctx, "", most, done)
	if errors.Is(err, errNever) {
		return false, nil
	}
	return err == nil, err
}

// appears measures how long something new is not shown, and fails if it never is.
func (s *session) appears(ctx context.Context, kind string, look func() (bool, error)) error {
	began := s.now()
	err := s.until(ctx, "the new "+kind, 2*settled, func() (bool, error) {
		is, err := look()
		if code(err) != "" && strings.Contains(code(err), "NotFound") {
			return false, nil
		}
		return is, err
	})
	if err == nil {
		s.measure("until shown: "+kind, s.now().Sub(began))
	}
	return err
}

func (s *session) measure(what string, took time.Duration) {
	s.report.Measured = append(s.report.Measured, Measure{what, round(took)})
}

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
func (s *session) ours() []types.Filter { return []types.Filter{filter("tag:"+TagRun, s.guard.run)} }

// tagged are the tags of a new resource.
func (s *session) tagged(kind types.ResourceType) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{
		{Key: sdk.String(TagRun), Value: sdk.String(s.guard.run)},
		{Key: sdk.String(TagEnd), Value: sdk.String(s.guard.end.Format(time.RFC3339))},
	}}}
}

// base makes what all checks need, or finds it.
func (s *session) base(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"find the public image and two zones", s.findImage}, {"make the network", s.makeNetwork}, {"make the launch template", s.makeTemplate},
		{"make the group", s.makeGroup},
	} {
		fmt.Fprintf(s.out, "%s\n", step.what)
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
		if err := s.appears(ctx, "VPC", func() (bool, error) {
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
		if err := s.appears(ctx, "subnet", func() (bool, error) {
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
	out, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String(s.guard.name()),
		ClientToken: sdk.String(s.guard.name()), LaunchTemplateData: s.recipe(nil), TagSpecifications: s.tagged(types.ResourceTypeLaunchTemplate)})
	if err != nil {
		return err
	}
	s.template = sdk.ToString(out.LaunchTemplate.LaunchTemplateId)
	return s.appears(ctx, "launch template", func() (bool, error) {
		found, err := s.templates(ctx)
		return len(found) > 0, err
	})
}

// version makes a version of the template and returns its number. Repeated, it is the same version.
func (s *session) version(ctx context.Context, what string, change func(*types.RequestLaunchTemplateData)) (string, error) {
	out, err := s.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: sdk.String(s.template),
		ClientToken: sdk.String(s.guard.name() + "-" + what), VersionDescription: sdk.String(what), LaunchTemplateData: s.recipe(change)})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(sdk.ToInt64(out.LaunchTemplateVersion.VersionNumber)), nil
}
