package aws

import (
	"context"
	"io"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sessionOf opens a run that may go on for an hour.
func sessionOf(t *testing.T, in *realcloud.Account, run string) *session {
	t.Helper()
	c, err := realcloud.Open(Cloud(), in, io.Discard, run, in.Now().Add(time.Hour))
	must(t, err)
	return c.Session().(*session)
}

// TestGuard sends what no run sends.
func TestGuard(t *testing.T) {
	sim, err := simulate("")
	must(t, err)
	t.Cleanup(sim.close)
	account, ctx := sim.account(), t.Context()
	foreign, err := ec2.NewFromConfig(sim.config).CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(1)})
	must(t, err)
	must(t, sim.wait(ctx, 2*simulatedLag))
	sent := 0
	account.Intercept = func(_ context.Context, r realcloud.Request, _ bool) error {
		if r.Effect != realcloud.Reads {
			sent++
		}
		return nil
	}
	s := sessionOf(t, account, "rtestz")
	tags := s.tagged(types.ResourceTypeVolume)
	other := sessionOf(t, account, "rotherz").tagged(types.ResourceTypeVolume)
	for name, call := range map[string]func() error{
		"a call that no rule has": func() error {
			_, err := s.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}})
			return err
		},
		"a volume of someone": func() error {
			_, err := s.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: foreign.VolumeId})
			return err
		},
		"a snapshot of someone's volume": func() error {
			_, err := s.ec2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: foreign.VolumeId, TagSpecifications: s.tagged(types.ResourceTypeSnapshot)})
			return err
		},
		"no tags": func() error {
			_, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(1)})
			return err
		},
		"tags of another run": func() error {
			_, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(1), TagSpecifications: other})
			return err
		},
		"a large volume": func() error {
			_, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(500), TagSpecifications: tags})
			return err
		},
		"a large instance": func() error {
			_, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("x-y"),
				LaunchTemplateData: s.recipe(func(d *types.RequestLaunchTemplateData) { d.InstanceType = "p5.48xlarge" }),
				TagSpecifications:  s.tagged(types.ResourceTypeLaunchTemplate)})
			return err
		},
		"a template without tags for machines": func() error {
			_, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("x-y"),
				LaunchTemplateData: s.recipe(func(d *types.RequestLaunchTemplateData) { d.TagSpecifications = nil }),
				TagSpecifications:  s.tagged(types.ResourceTypeLaunchTemplate)})
			return err
		},
		"a machine with rights": func() error {
			_, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("x-y"),
				LaunchTemplateData: s.recipe(func(d *types.RequestLaunchTemplateData) {
					d.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: sdk.String("admin")}
				}), TagSpecifications: s.tagged(types.ResourceTypeLaunchTemplate)})
			return err
		},
		"many instances": func() error {
			_, err := s.ec2.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: sdk.Int32(1), MaxCount: sdk.Int32(9),
				TagSpecifications: s.tagged(types.ResourceTypeInstance)})
			return err
		},
		"a group of someone": func() error {
			_, err := s.groups.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String("production")})
			return err
		},
		"a large warm pool": func() error {
			_, err := s.groups.PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: s.groupName(), MinSize: sdk.Int32(0),
				MaxGroupPreparedCapacity: sdk.Int32(40)})
			return err
		},
		"a tag of someone": func() error {
			_, err := s.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{*foreign.VolumeId}, Tags: s.tagged(types.ResourceTypeVolume)[0].Tags})
			return err
		},
		"a large group": func() error {
			_, err := s.groups.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: s.groupName(), MaxSize: sdk.Int32(50)})
			return err
		},
	} {
		if err := call(); !realcloud.IsRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, sim.wait(ctx, 2*time.Hour))
	if _, err := s.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: sdk.String("10.213.0.0/24"),
		TagSpecifications: s.tagged(types.ResourceTypeVpc)}); !realcloud.IsRefusal(err) {
		t.Errorf("after the end: %v", err)
	}
	if sent != 0 {
		t.Errorf("%d changes were sent", sent)
	}
}

// TestPolicyIsOfOneRun: the policy of a run allows no other.
func TestPolicyIsOfOneRun(t *testing.T) {
	policy, err := policyOf("rtestz")
	must(t, err)
	sim, err := simulate(string(policy))
	must(t, err)
	t.Cleanup(sim.close)
	other := sessionOf(t, sim.account(), "rotherz")
	if _, err := other.ec2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: sdk.String("10.213.0.0/24"),
		TagSpecifications: other.tagged(types.ResourceTypeVpc)}); code(err) != "UnauthorizedOperation" {
		t.Errorf("the policy allows another run: %v", err)
	}
}
