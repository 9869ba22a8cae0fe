package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// group is the run's group; nil if there is none.
func (s *session) group(ctx context.Context) (*astypes.AutoScalingGroup, error) {
	out, err := s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{s.Name()}})
	if err != nil || len(out.AutoScalingGroups) == 0 {
		return nil, err
	}
	return &out.AutoScalingGroups[0], nil
}

// mustGroup is the group, which must be there.
func (s *session) mustGroup(ctx context.Context) (*astypes.AutoScalingGroup, error) {
	g, err := s.group(ctx)
	if err == nil && g == nil {
		err = fmt.Errorf("the group %s is gone", s.Name())
	}
	return g, err
}

func (s *session) groupName() *string { return sdk.String(s.Name()) }

// makeGroup makes a group of two instances, one in each zone.
func (s *session) makeGroup(ctx context.Context) error {
	g, err := s.group(ctx)
	if err != nil {
		return err
	}
	if g == nil {
		tag := func(key, value string) astypes.Tag {
			return astypes.Tag{Key: sdk.String(key), Value: sdk.String(value), PropagateAtLaunch: sdk.Bool(false),
				ResourceId: s.groupName(), ResourceType: sdk.String("auto-scaling-group")}
		}
		_, err := s.groups.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: s.groupName(),
			MinSize: sdk.Int32(0), MaxSize: sdk.Int32(maxGroup), DesiredCapacity: sdk.Int32(2),
			LaunchTemplate:    &astypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(s.template), Version: sdk.String("1")},
			VPCZoneIdentifier: sdk.String(strings.Join(s.subnets, ",")),
			Tags:              []astypes.Tag{tag(realcloud.TagRun, s.Run), tag(realcloud.TagEnd, s.End.Format(time.RFC3339))}})
		if err != nil {
			return err
		}
	}
	began := s.Now()
	if err := s.settle(ctx, 2); err != nil {
		return err
	}
	if g == nil {
		s.Measure("a group of two in service", s.Now().Sub(began))
	}
	return nil
}

// settle brings the group to n instances in service that nothing protects, with the first version of the template, without hooks and warm pool. An
// earlier check or an interrupted run may have left anything else.
func (s *session) settle(ctx context.Context, n int32) error {
	hooks, err := s.groups.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: s.groupName()})
	if err != nil {
		return err
	}
	for _, h := range hooks.LifecycleHooks {
		if err := s.deleteHook(ctx, sdk.ToString(h.LifecycleHookName)); err != nil {
			return err
		}
	}
	g, err := s.mustGroup(ctx)
	if err != nil {
		return err
	}
	for _, i := range inService(g) {
		if sdk.ToBool(i.ProtectedFromScaleIn) {
			if err := s.protect(ctx, sdk.ToString(i.InstanceId), false); err != nil {
				return err
			}
		}
	}
	if err := s.resize(ctx, maxGroup, n, "1"); err != nil {
		return err
	}
	ended := map[string]bool{}
	return s.Until(ctx, fmt.Sprintf("%d instances in service", n), realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		if none, err := s.endWarm(ctx, g); !none {
			return false, err
		}
		for _, i := range g.Instances {
			if id := sdk.ToString(i.InstanceId); i.LifecycleState == astypes.LifecycleStateStandby && !ended[id] {
				ended[id] = true
				if err := s.terminate(ctx, id); err != nil {
					return false, err
				}
			}
		}
		return len(g.Instances) == int(n) && len(inService(g)) == int(n), nil
	})
}

// resize sets the size of the group, and the version of its template unless that is empty.
func (s *session) resize(ctx context.Context, most, n int32, version string) error {
	in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: s.groupName(), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(most),
		DesiredCapacity: sdk.Int32(n)}
	if version != "" {
		in.LaunchTemplate = &astypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(s.template), Version: sdk.String(version)}
	}
	_, err := s.groups.UpdateAutoScalingGroup(ctx, in)
	return err
}

func (s *session) deleteHook(ctx context.Context, name string) error {
	_, err := s.groups.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: s.groupName(), LifecycleHookName: sdk.String(name)})
	return err
}

func (s *session) protect(ctx context.Context, id string, is bool) error {
	_, err := s.groups.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: s.groupName(),
		InstanceIds: []string{id}, ProtectedFromScaleIn: sdk.Bool(is)})
	return err
}

func (s *session) terminate(ctx context.Context, ids ...string) error {
	_, err := s.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	return err
}

// inService are the instances of a group in service.
func inService(g *astypes.AutoScalingGroup) []astypes.Instance {
	return slices.DeleteFunc(slices.Clone(g.Instances), func(i astypes.Instance) bool { return i.LifecycleState != astypes.LifecycleStateInService })
}

// member is an instance of a group; nil if the group has it no longer.
func member(g *astypes.AutoScalingGroup, id string) *astypes.Instance {
	at := slices.IndexFunc(g.Instances, func(i astypes.Instance) bool { return sdk.ToString(i.InstanceId) == id })
	if at < 0 {
		return nil
	}
	return &g.Instances[at]
}

// enterStandby puts an instance into standby and makes the group smaller by it.
func (s *session) enterStandby(ctx context.Context, id string) error {
	began := s.Now()
	if _, err := s.groups.EnterStandby(ctx, &autoscaling.EnterStandbyInput{AutoScalingGroupName: s.groupName(), InstanceIds: []string{id},
		ShouldDecrementDesiredCapacity: sdk.Bool(true)}); err != nil {
		return err
	}
	err := s.Until(ctx, "an instance in standby", realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		i := member(g, id)
		return i != nil && i.LifecycleState == astypes.LifecycleStateStandby, nil
	})
	if err == nil {
		s.Measure("enter standby", s.Now().Sub(began))
	}
	return err
}

// inStandby is an instance in standby, beside two in service.
func (s *session) inStandby(ctx context.Context) (string, error) {
	if err := s.settle(ctx, 3); err != nil {
		return "", err
	}
	g, err := s.mustGroup(ctx)
	if err != nil {
		return "", err
	}
	id := sdk.ToString(crowded(g).InstanceId)
	return id, s.enterStandby(ctx, id)
}

// crowded is an instance in the zone with most instances: without it, the zones stay balanced.
func crowded(g *astypes.AutoScalingGroup) astypes.Instance {
	return byZone(g, func(n, best int) bool { return n > best })
}

// lonely is an instance in the zone with fewest instances.
func lonely(g *astypes.AutoScalingGroup) astypes.Instance {
	return byZone(g, func(n, best int) bool { return n < best })
}

func byZone(g *astypes.AutoScalingGroup, better func(n, best int) bool) astypes.Instance {
	zones := map[string]int{}
	for _, i := range inService(g) {
		zones[sdk.ToString(i.AvailabilityZone)]++
	}
	var found astypes.Instance
	for _, i := range inService(g) {
		if found.InstanceId == nil || better(zones[sdk.ToString(i.AvailabilityZone)], zones[sdk.ToString(found.AvailabilityZone)]) {
			found = i
		}
	}
	return found
}
