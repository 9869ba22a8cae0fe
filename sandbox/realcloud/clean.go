package realcloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Limits of clean: the pause between two rounds, the rounds, and how many rounds must see nothing. What was made just before a kill
// is not shown yet.
const (
	roundEvery  = 20 * time.Second
	maxRounds   = 90
	emptyRounds = 4
)

// Run is a run that the cloud knows by its tags.
type Run struct {
	Name string
	End  time.Time
}

// fleeting types are shown for a while after their end, and never exist without something that is not.
var fleeting = []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeNetworkInterface, types.ResourceTypeReplaceRootVolumeTask,
	types.ResourceTypeImage}

// runs are the runs whose tag the cloud shows on anything that exists.
func (s *session) runs(ctx context.Context) ([]Run, error) {
	ends := map[string]time.Time{}
	note := func(name, end string) {
		if at, err := time.Parse(time.RFC3339, end); err == nil || ends[name].IsZero() {
			ends[name] = at
		}
	}
	// Of EC2, by resource: the two tags stand in separate lines.
	names, times := map[string]string{}, map[string]string{}
	for _, key := range []string{TagRun, TagEnd} {
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
				map[string]map[string]string{TagRun: names, TagEnd: times}[key][sdk.ToString(t.ResourceId)] = sdk.ToString(t.Value)
			}
		}
	}
	for id, name := range names {
		note(name, times[id])
	}
	groups, err := s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{Filters: []astypes.Filter{
		{Name: sdk.String("tag-key"), Values: []string{TagRun}}}})
	if err != nil {
		return nil, err
	}
	for _, g := range groups.AutoScalingGroups {
		name, end := "", ""
		for _, t := range g.Tags {
			switch sdk.ToString(t.Key) {
			case TagRun:
				name = sdk.ToString(t.Value)
			case TagEnd:
				end = sdk.ToString(t.Value)
			}
		}
		note(name, end)
	}
	var all []Run
	for name, end := range ends {
		all = append(all, Run{name, end})
	}
	slices.SortFunc(all, func(a, b Run) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// findRuns looks for runs for a while, because the cloud may not show yet what a killed run has just made.
func (s *session) findRuns(ctx context.Context) (all []Run, err error) {
	_, err = s.watch(ctx, emptyRounds*roundEvery, func() (bool, error) {
		all, err = s.runs(ctx)
		return len(all) > 0, err
	})
	return all, err
}

// clean removes everything with the tag of the run, and returns when nothing is shown any more.
func (s *session) clean(ctx context.Context) error {
	empty := 0
	var last error
	for range maxRounds {
		n, err := s.sweep(ctx)
		switch last = err; {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isRefusal(err):
			return err
		case err == nil && n == 0:
			empty++
		default:
			empty = 0
		}
		if empty == emptyRounds {
			fmt.Fprintf(s.out, "nothing is left with the tag %s=%s\n", TagRun, s.guard.run)
			return nil
		}
		if err := s.wait(ctx, roundEvery); err != nil {
			return err
		}
	}
	return errors.Join(fmt.Errorf("something with the tag %s=%s is left after %d rounds; run `verify-cloud clean --run %s` again", TagRun, s.guard.run,
		maxRounds, s.guard.run), last)
}

// kind is a kind of resources with the tag, in the order of removal.
type kind struct {
	name string
	// list returns the IDs that still exist, and of these the ones that can be removed now.
	list   func(ctx context.Context) (all, now []string, err error)
	remove func(ctx context.Context, id string) error
}

// sweep asks for the removal of what it sees, and returns how much still exists. What depends on something else stays for
// the next round.
func (s *session) sweep(ctx context.Context) (left int, err error) {
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
				fmt.Fprintf(s.out, "removed: %s\n", k.name)
			case ctx.Err() != nil || isRefusal(err):
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
			_, err := s.groups.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(id), ForceDelete: sdk.Bool(true)})
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
	all = []string{s.guard.name()}
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
