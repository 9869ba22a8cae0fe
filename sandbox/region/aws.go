package region

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// AWSOptions are options for AWS only.
type AWSOptions struct {
	// Latencies override simulated durations, Throttle the cloud's patience.
	Latencies aws.Latencies
	Throttle  aws.Throttle
	// Lag is how long after its creation something of EC2's is not found.
	Lag time.Duration
}

// AWS is a region of an account in the simulated AWS.
type AWS struct {
	*aws.Server
	config Config
	ec2    *ec2.Client
	groups *autoscaling.Client
}

var _ Region = (*AWS)(nil)

// The machines of pools: Canonical's Ubuntu, and a suitable instance type.
const (
	ubuntu       = "ami-0a1b2c3d4e5f60718"
	canonical    = "099720109477"
	eks          = "ami-0b2c3d4e5f607181a"
	amazon       = "602401143452"
	instanceType = "m6i.large"
	// NodeRole is the name of the role of instances in EKS pools.
	NodeRole = "sandbox-nodes"
	// NarrowKeyID is the access key of a user with the published policy, without powers, and GrantedKeyID with all powers. Their secret
	// is the account's.
	NarrowKeyID  = "AKIASANDBOXNARROWKEY"
	GrantedKeyID = "AKIASANDBOXGRANTEDKE"
	// AWSAdministrator is the user with all rights.
	AWSAdministrator = "kamino"
)

// powersOf are the powers of users with a policy, by their access keys.
var powersOf = map[string][]string{GrantedKeyID: {cloud.ForInPlace, cloud.ForRebuild}}

// NewAWS opens AWS on the state in the directory.
func NewAWS(c Config, o AWSOptions) (*AWS, error) {
	account := c.Facts.AWS
	users := []aws.User{{Name: AWSAdministrator, KeyID: account.KeyID, Secret: account.Secret}}
	for _, u := range []aws.User{{Name: "narrow", KeyID: NarrowKeyID}, {Name: "granted", KeyID: GrantedKeyID}} {
		policy, err := provider.Policy(powersOf[u.KeyID]...)
		if err != nil {
			return nil, err
		}
		u.Secret = account.Secret
		u.Policy = strings.NewReplacer("ACCOUNT", account.ID, "ROLE-OF-THE-NODES", NodeRole, "role/ROLE-OF-KAMINO", "user/"+u.Name).Replace(string(policy))
		users = append(users, u)
	}
	server, err := aws.New(aws.Config{
		Dir: c.Dir, Clock: c.Clock, Fleet: c.Fleet, Account: account.ID, Region: account.Region,
		Users: users,
		Images: []aws.Platform{{ID: ubuntu, Name: "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20241002", Owner: canonical,
			Content: "ec2:canonical:ubuntu-jammy-22.04-amd64:20241002", RootDevice: "/dev/sda1", Size: 30},
			{ID: eks, Name: "amazon-eks-node-al2023-x86_64-standard-1.37-v20251120", Owner: amazon, Content: "ec2:amazon:eks-al2023-x86_64-standard:20251120"}},
		Roles:      []aws.Role{{Name: NodeRole}},
		Registered: c.Fleet.Published,
		Subnets:    subnets(account.Region),
		Latencies:  o.Latencies, Throttle: o.Throttle, Lag: o.Lag, Certificate: c.Certificate, Record: c.Record,
	})
	if err != nil {
		return nil, err
	}
	client, err := c.Servers.Client()
	if err != nil {
		return nil, err
	}
	config := sdk.Config{
		Region: account.Region, BaseEndpoint: sdk.String(c.Servers.Cloud), HTTPClient: provider.WithPlainBodies(client), AppID: "sandbox-autoscaler",
		Credentials: credentials.NewStaticCredentialsProvider(account.KeyID, account.Secret, ""),
	}
	return &AWS{Server: server, config: c, ec2: ec2.NewFromConfig(config), groups: autoscaling.NewFromConfig(config)}, nil
}

// subnets of the region: one in each zone.
func subnets(region string) []aws.Subnet {
	var out []aws.Subnet
	for _, zone := range []string{"a", "b", "c"} {
		out = append(out, aws.Subnet{ID: "subnet-0000000000000000" + zone, Zone: region + zone, Tags: map[string]string{"karpenter.sh/discovery": "sandbox"}})
	}
	return out
}

// EC2 is a client of the real SDK with all rights.
func (a *AWS) EC2() *ec2.Client { return a.ec2 }

// Groups is the same of Auto Scaling.
func (a *AWS) Groups() *autoscaling.Client { return a.groups }

// MakePool implements Region: creates a launch template, and a group that names version 1 of the template.
func (a *AWS) MakePool(ctx context.Context, spec pool.Spec, userData string) error {
	name := spec.Group()
	if _, found, err := a.group(ctx, spec); err != nil || found {
		return err
	}
	_, err := a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: sdk.String(name),
		LaunchTemplateData: template(spec, userData),
	})
	if err != nil && !is(err, "InvalidLaunchTemplateName.AlreadyExistsException") {
		return shortError(err)
	}
	var in []string
	for _, n := range subnets(a.config.Facts.AWS.Region)[:map[bool]int{false: 1, true: 3}[spec.Zones]] {
		in = append(in, n.ID)
	}
	least, most := bounds(spec)
	group := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(name), MinSize: sdk.Int32(int32(least)), MaxSize: sdk.Int32(int32(most)),
		DesiredCapacity:   sdk.Int32(int32(spec.Nodes)),
		LaunchTemplate:    &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(name), Version: sdk.String("1")},
		VPCZoneIdentifier: sdk.String(strings.Join(in, ",")),
		Tags:              []astypes.Tag{{Key: sdk.String("Name"), Value: sdk.String(spec.Name), PropagateAtLaunch: sdk.Bool(true)}},
	}
	if spec.Types != "" {
		group.LaunchTemplate, group.MixedInstancesPolicy = nil, Mixed(group.LaunchTemplate, strings.Split(spec.Types, "+")...)
	}
	if _, err = a.groups.CreateAutoScalingGroup(ctx, group); err != nil {
		return shortError(err)
	}
	return await(ctx, func() (bool, error) {
		g, _, err := a.group(ctx, spec)
		return err == nil && !slices.ContainsFunc(g.Instances, func(i astypes.Instance) bool { return i.LifecycleState != astypes.LifecycleStateInService }) &&
			len(g.Instances) == spec.Nodes, err
	})
}

// Mixed is the policy of a group of several types.
func Mixed(template *astypes.LaunchTemplateSpecification, types ...string) *astypes.MixedInstancesPolicy {
	out := &astypes.LaunchTemplate{LaunchTemplateSpecification: template}
	for _, kind := range types {
		out.Overrides = append(out.Overrides, astypes.LaunchTemplateOverrides{InstanceType: sdk.String(kind)})
	}
	return &astypes.MixedInstancesPolicy{LaunchTemplate: out}
}

// bounds of a group: how few and how many instances it may have.
func bounds(spec pool.Spec) (least, most int) {
	if spec.Max == 0 {
		return min(1, spec.Nodes), 1000
	}
	return min(1, spec.Nodes), max(spec.Max, spec.Nodes)
}

// template of a pool's instances.
func template(spec pool.Spec, userData string) *ec2types.RequestLaunchTemplateData {
	t := &ec2types.RequestLaunchTemplateData{
		ImageId: sdk.String(ubuntu), InstanceType: instanceType, UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired},
	}
	if spec.Profile == "eks" {
		t.ImageId = sdk.String(eks)
		t.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: sdk.String(NodeRole)}
	}
	return t
}

// NodeName is the Node name of an instance in EKS: the private DNS name.
func (a *AWS) NodeName(ctx context.Context, instance string) (string, error) {
	out, err := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	if err != nil {
		return "", shortError(err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return sdk.ToString(i.PrivateDnsName), nil
		}
	}
	return "", fmt.Errorf("there is no instance %s", instance)
}

// lookEvery is the interval of polls for unfinished work.
const lookEvery = 100 * time.Millisecond

// await returns when something is done.
func await(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if is, err := done(); err != nil || is {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Owns implements Region. A Node names only its instance; the instance names its group.
func (a *AWS) Owns(spec pool.Spec) func(*corev1.Node) bool { return a.owns(spec.Group()) }

// owns selects the Nodes whose instances name this pool.
func (a *AWS) owns(pool string) func(*corev1.Node) bool {
	own := map[string]bool{}
	for _, s := range a.Specs() {
		if s.Pool == pool {
			own[s.ProviderID] = true
		}
	}
	return func(node *corev1.Node) bool { return own[node.Spec.ProviderID] }
}

// group of a pool; false if there is none.
func (a *AWS) group(ctx context.Context, spec pool.Spec) (astypes.AutoScalingGroup, bool, error) {
	return a.groupNamed(ctx, spec.Group())
}

func (a *AWS) groupNamed(ctx context.Context, name string) (astypes.AutoScalingGroup, bool, error) {
	out, err := a.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil || len(out.AutoScalingGroups) == 0 {
		return astypes.AutoScalingGroup{}, false, shortError(err)
	}
	return out.AutoScalingGroups[0], true, nil
}

// Pool implements Region.
func (a *AWS) Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error) {
	g, found, err := a.group(ctx, spec)
	if err != nil || !found {
		return control.Pool{}, false, err
	}
	p := control.Pool{Spec: spec, Group: spec.Group(), ID: sdk.ToString(g.AutoScalingGroupARN),
		Capacity: int64(sdk.ToInt32(g.DesiredCapacity)), Extensions: []string{}}
	if m := g.MixedInstancesPolicy; m != nil {
		g.LaunchTemplate = m.LaunchTemplate.LaunchTemplateSpecification
	}
	if g.LaunchTemplate == nil {
		return p, true, nil
	}
	out, err := a.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: g.LaunchTemplate.LaunchTemplateId, Versions: []string{sdk.ToString(g.LaunchTemplate.Version)},
	})
	if err != nil {
		return p, false, shortError(err)
	}
	if len(out.LaunchTemplateVersions) > 0 {
		p.Image = sdk.ToString(out.LaunchTemplateVersions[0].LaunchTemplateData.ImageId)
	}
	return p, true, nil
}

// Instances implements Region.
func (a *AWS) Instances(ctx context.Context, spec pool.Spec) ([]string, error) {
	g, _, err := a.group(ctx, spec)
	var ids []string
	for _, i := range g.Instances {
		ids = append(ids, sdk.ToString(i.InstanceId))
	}
	return ids, err
}

// Protected implements Region.
func (a *AWS) Protected(ctx context.Context, spec pool.Spec) ([]string, error) {
	return a.protectedIn(ctx, spec.Group())
}

// protectedIn returns the instances of a group that are protected or in standby.
func (a *AWS) protectedIn(ctx context.Context, group string) ([]string, error) {
	g, _, err := a.groupNamed(ctx, group)
	var ids []string
	for _, i := range g.Instances {
		standby := i.LifecycleState == astypes.LifecycleStateStandby || i.LifecycleState == astypes.LifecycleStateEnteringStandby
		if standby || sdk.ToBool(i.ProtectedFromScaleIn) {
			ids = append(ids, sdk.ToString(i.InstanceId))
		}
	}
	return ids, err
}

// Resize implements Region. A group without capacity retries.
func (a *AWS) Resize(ctx context.Context, spec pool.Spec, nodes int64) (int64, func(context.Context) error, error) {
	g, found, err := a.group(ctx, spec)
	if err == nil && !found {
		err = fmt.Errorf("there is no group %s", spec.Group())
	}
	if err != nil {
		return 0, nil, err
	}
	return int64(sdk.ToInt32(g.DesiredCapacity)), nil, a.resize(ctx, spec.Group(), nodes)
}

func (a *AWS) resize(ctx context.Context, group string, nodes int64) error {
	_, err := a.groups.SetDesiredCapacity(ctx,
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(group), DesiredCapacity: sdk.Int32(int32(nodes))})
	return shortError(err)
}

// Remove implements Region.
func (a *AWS) Remove(ctx context.Context, m machine.Status) error {
	_, err := a.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: sdk.String(m.ID), ShouldDecrementDesiredCapacity: sdk.Bool(true),
	})
	if err != nil {
		return shortError(err)
	}
	return await(ctx, func() (bool, error) {
		out, err := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{m.ID}})
		if err != nil {
			return false, shortError(err)
		}
		return len(out.Reservations) == 0 || out.Reservations[0].Instances[0].State.Name == ec2types.InstanceStateNameTerminated, nil
	})
}

// images of the account.
func (a *AWS) images(ctx context.Context) ([]ec2types.Image, error) {
	var all []ec2types.Image
	for pages := ec2.NewDescribeImagesPaginator(a.ec2, &ec2.DescribeImagesInput{Owners: []string{"self"}, IncludeDisabled: sdk.Bool(true)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, shortError(err)
		}
		all = append(all, page.Images...)
	}
	return all, nil
}

// backing is the snapshot of an image's root volume.
func backing(im ec2types.Image) string {
	for _, d := range im.BlockDeviceMappings {
		if d.Ebs != nil && sdk.ToString(d.DeviceName) == sdk.ToString(im.RootDeviceName) {
			return sdk.ToString(d.Ebs.SnapshotId)
		}
	}
	return ""
}

// Snapshots implements Region.
func (a *AWS) Snapshots(ctx context.Context) ([]string, error) {
	images, err := a.images(ctx)
	if err != nil {
		return nil, err
	}
	backs := map[string]bool{}
	for _, im := range images {
		backs[backing(im)] = true
	}
	var names []string
	for pages := ec2.NewDescribeSnapshotsPaginator(a.ec2, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, shortError(err)
		}
		for _, s := range page.Snapshots {
			if !backs[sdk.ToString(s.SnapshotId)] {
				name := sdk.ToString(s.SnapshotId)
				for _, t := range s.Tags {
					if sdk.ToString(t.Key) == "Name" {
						name += " " + sdk.ToString(t.Value)
					}
				}
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// Versions implements Region. A version is the image of its name, "kamino/GROUP/VERSION".
func (a *AWS) Versions(ctx context.Context, spec pool.Spec) ([]Version, error) {
	return a.versions(ctx, spec.Group())
}

// versions of the images of a line.
func (a *AWS) versions(ctx context.Context, line string) ([]Version, error) {
	images, err := a.images(ctx)
	if err != nil {
		return nil, err
	}
	var all []Version
	for _, im := range images {
		version, is := strings.CutPrefix(sdk.ToString(im.Name), "kamino/"+line+"/")
		if !is {
			continue
		}
		v := Version{Complete: im.State == ec2types.ImageStateAvailable || im.State == ec2types.ImageStateDisabled, Name: version, ID: sdk.ToString(im.ImageId), Disk: fleet.DiskID(backing(im)),
			Tags: map[string]string{}}
		for _, t := range im.Tags {
			v.Tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
		}
		all = append(all, v)
	}
	return all, nil
}

func is(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

// shortError leaves the cloud's own sentence of an error that the SDK wraps.
func shortError(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	return fmt.Errorf("%s: %s", api.ErrorCode(), api.ErrorMessage())
}
