package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// fleeting types are shown for a while after their end, and never exist without something that is not.
var fleeting = []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeNetworkInterface, types.ResourceTypeReplaceRootVolumeTask,
	types.ResourceTypeImage}

// Runs implements realcloud.Session.
func (s *session) Runs(ctx context.Context) ([]realcloud.Run, error) {
	// Of EC2, by resource: the two tags stand in separate lines.
	names, times := map[string]string{}, map[string]string{}
	for _, key := range []string{realcloud.TagRun, realcloud.TagEnd} {
		pages := ec2.NewDescribeTagsPaginator(s.ec2, &ec2.DescribeTagsInput{Filters: []types.Filter{filter("key", key)}})
		for n := 0; pages.HasMorePages() && n < 20; n++ {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, t := range page.Tags {
				if slices.Contains(fleeting, t.ResourceType) {
					continue
				}
				map[string]map[string]string{realcloud.TagRun: names, realcloud.TagEnd: times}[key][sdk.ToString(t.ResourceId)] = sdk.ToString(t.Value)
			}
		}
	}
	found := map[string][]string{}
	for id, name := range names {
		found[name] = append(found[name], times[id])
	}
	groups, err := s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{Filters: []astypes.Filter{
		{Name: sdk.String("tag-key"), Values: []string{realcloud.TagRun}}}})
	if err != nil {
		return nil, err
	}
	for _, g := range groups.AutoScalingGroups {
		of := map[string]string{}
		for _, t := range g.Tags {
			of[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
		}
		found[of[realcloud.TagRun]] = append(found[of[realcloud.TagRun]], of[realcloud.TagEnd])
	}
	return realcloud.RunsOf(found), nil
}

// kind is a kind of resources with the tag, in the order of removal.
type kind struct {
	name string
	// list returns the IDs that still exist, and of these the ones that can be removed now.
	list   func(ctx context.Context) (all, now []string, err error)
	remove func(ctx context.Context, id string) error
}

// Sweep implements realcloud.Session. What depends on something else stays for the next round.
func (s *session) Sweep(ctx context.Context) (left int, err error) {
	var problems []error
	for _, k := range s.kinds() {
		all, now, err := k.list(ctx)
		if err != nil {
			return left, fmt.Errorf("list %s: %w", k.name, err)
		}
		left += len(all)
		for _, id := range now {
			switch err := k.remove(ctx, id); {
			case err == nil:
				fmt.Fprintf(s.Out, "removed: %s\n", k.name)
			case ctx.Err() != nil || realcloud.IsRefusal(err):
				return left, err
			case strings.Contains(code(err), "NotFound"): // since the list
			default:
				problems = append(problems, fmt.Errorf("remove %s: %w", k.name, err))
			}
		}
	}
	return left, errors.Join(problems...)
}

// kinds are all kinds that a run makes. Hooks go with the group, network interfaces and roots with the instances.
func (s *session) kinds() []kind {
	simple := func(list func(context.Context) ([]string, error)) func(context.Context) (all, now []string, err error) {
		return func(ctx context.Context) (all, now []string, err error) {
			all, err = list(ctx)
			return all, all, err
		}
	}
	return []kind{
		{"group", s.groupToRemove, func(ctx context.Context, id string) error {
			g, err := s.group(ctx)
			if err != nil || g == nil {
				return err
			}
			if none, err := s.endWarm(ctx, g); !none {
				return err
			}
			_, err = s.groups.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(id), ForceDelete: sdk.Bool(true)})
			return err
		}},
		{"instance", s.instancesToRemove, func(ctx context.Context, id string) error { return s.terminate(ctx, id) }},
		{"image", simple(s.imagesToRemove), func(ctx context.Context, id string) error {
			_, err := s.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: sdk.String(id)})
			return err
		}},
		{"snapshot", simple(s.snapshotsToRemove), func(ctx context.Context, id string) error {
			_, err := s.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: sdk.String(id)})
			return err
		}},
		{"volume", s.volumesToRemove, func(ctx context.Context, id string) error {
			_, err := s.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: sdk.String(id)})
			return err
		}},
		{"launch template", simple(s.templates), func(ctx context.Context, id string) error {
			_, err := s.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: sdk.String(id)})
			return err
		}},
		{"subnet", simple(s.subnetsToRemove), func(ctx context.Context, id string) error {
			_, err := s.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: sdk.String(id)})
			return err
		}},
		{"VPC", simple(s.networks), func(ctx context.Context, id string) error {
			_, err := s.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: sdk.String(id)})
			return err
		}},
	}
}

// groupToRemove is the group. A deleted group is shown until its instances are gone.
func (s *session) groupToRemove(ctx context.Context) (all, now []string, err error) {
	g, err := s.group(ctx)
	if err != nil || g == nil {
		return nil, nil, err
	}
	all = []string{s.Name()}
	if g.Status == nil {
		now = all
	}
	return all, now, nil
}

// instancesToRemove are the instances. Those of the group go with it, once the group is gone or they left it.
func (s *session) instancesToRemove(ctx context.Context) (all, now []string, err error) {
	pages := ec2.NewDescribeInstancesPaginator(s.ec2, &ec2.DescribeInstancesInput{Filters: s.ours()})
	for n := 0; pages.HasMorePages() && n < 20; n++ {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if i.State.Name == types.InstanceStateNameTerminated {
					continue
				}
				all = append(all, sdk.ToString(i.InstanceId))
				if i.State.Name != types.InstanceStateNameShuttingDown {
					now = append(now, sdk.ToString(i.InstanceId))
				}
			}
		}
	}
	return all, now, nil
}

func (s *session) imagesToRemove(ctx context.Context) (all []string, err error) {
	found, err := s.images(ctx)
	for _, i := range found {
		all = append(all, sdk.ToString(i.ImageId))
	}
	return all, err
}

func (s *session) snapshotsToRemove(ctx context.Context) (all []string, err error) {
	found, err := s.snapshots(ctx)
	for _, f := range found {
		all = append(all, sdk.ToString(f.SnapshotId))
	}
	return all, err
}

// volumesToRemove are the volumes. Those of instances go with them.
func (s *session) volumesToRemove(ctx context.Context) (all, now []string, err error) {
	pages := ec2.NewDescribeVolumesPaginator(s.ec2, &ec2.DescribeVolumesInput{Filters: s.ours()})
	for n := 0; pages.HasMorePages() && n < 20; n++ {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range page.Volumes {
			all = append(all, sdk.ToString(v.VolumeId))
			if v.State == types.VolumeStateAvailable || v.State == types.VolumeStateError {
				now = append(now, sdk.ToString(v.VolumeId))
			}
		}
	}
	return all, now, nil
}

func (s *session) subnetsToRemove(ctx context.Context) (all []string, err error) {
	out, err := s.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: s.ours()})
	if err != nil {
		return nil, err
	}
	for _, n := range out.Subnets {
		all = append(all, sdk.ToString(n.SubnetId))
	}
	return all, nil
}
