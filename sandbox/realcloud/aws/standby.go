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

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// standbyProtection puts a protected instance into standby.
func (s *session) standbyProtection(ctx context.Context) (string, error) {
	if err := s.settle(ctx, 3); err != nil {
		return "", err
	}
	g, err := s.mustGroup(ctx)
	if err != nil {
		return "", err
	}
	id := sdk.ToString(crowded(g).InstanceId)
	if err := s.protect(ctx, id, true); err != nil {
		return "", err
	}
	if err := s.enterStandby(ctx, id); err != nil {
		return "", err
	}
	if g, err = s.mustGroup(ctx); err != nil {
		return "", err
	}
	if i := member(g, id); i != nil && sdk.ToBool(i.ProtectedFromScaleIn) {
		return "protected", nil
	}
	return "not protected", nil
}

// exitStandby asks for an instance to leave standby.
func (s *session) exitStandby(ctx context.Context, id string) error {
	_, err := s.groups.ExitStandby(ctx, &autoscaling.ExitStandbyInput{AutoScalingGroupName: s.groupName(), InstanceIds: []string{id}})
	return err
}

// standbyMaximum makes the maximum as small as the group without the instance in standby.
func (s *session) standbyMaximum(ctx context.Context) (string, error) {
	id, err := s.inStandby(ctx)
	if err != nil {
		return "", err
	}
	if err := s.resize(ctx, 2, 2, ""); err != nil {
		return "", err
	}
	if err := s.exitStandby(ctx, id); code(err) != "" {
		return code(err), nil
	} else if err != nil {
		return "", err
	}
	return "no error", nil
}

// standbyHook has an instance leave standby while a hook waits for launches.
func (s *session) standbyHook(ctx context.Context) (string, error) {
	id, err := s.inStandby(ctx)
	if err != nil {
		return "", err
	}
	const hook = "launching"
	if _, err := s.groups.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{AutoScalingGroupName: s.groupName(), LifecycleHookName: sdk.String(hook),
		LifecycleTransition: sdk.String("autoscaling:EC2_INSTANCE_LAUNCHING"), HeartbeatTimeout: sdk.Int32(60), DefaultResult: sdk.String("CONTINUE"),
	}); err != nil {
		return "", err
	}
	began, waited := s.Now(), false
	if err := s.exitStandby(ctx, id); err != nil {
		return "", err
	}
	err = s.Until(ctx, "an instance in service again", realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		i := member(g, id)
		if i == nil {
			return false, fmt.Errorf("the instance left the group")
		}
		waited = waited || strings.HasSuffix(string(i.LifecycleState), ":Wait")
		return i.LifecycleState == astypes.LifecycleStateInService, nil
	})
	if err != nil {
		return "", err
	}
	s.Measure("exit standby", s.Now().Sub(began))
	if waited {
		return "the hook ran", s.deleteHook(ctx, hook)
	}
	return "in service without a wait", s.deleteHook(ctx, hook)
}

// standbyTermination ends an instance in standby and watches the desired capacity.
func (s *session) standbyTermination(ctx context.Context) (string, error) {
	id, err := s.inStandby(ctx)
	if err != nil {
		return "", err
	}
	began := s.Now()
	if err := s.terminate(ctx, id); err != nil {
		return "", err
	}
	var left time.Time
	lowered, err := s.Watch(ctx, realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		if member(g, id) == nil && left.IsZero() {
			left = s.Now()
			s.Measure("a terminated instance in standby leaves the group", left.Sub(began))
		}
		if sdk.ToInt32(g.DesiredCapacity) != 2 {
			return true, nil
		}
		return !left.IsZero() && s.Now().Sub(left) > realcloud.Quiet, nil
	})
	if err != nil {
		return "", err
	}
	g, err := s.mustGroup(ctx)
	if err != nil {
		return "", err
	}
	if lowered && sdk.ToInt32(g.DesiredCapacity) != 2 {
		return "another desired capacity", nil
	}
	return "the same desired capacity", nil
}

// balance is what a group shows while its zones are balanced.
type balance struct {
	before []astypes.Instance // in service at the begin
	zone   string             // the empty one
	// launched: an instance is in the zone. ended: one of the instances of the begin is no longer in service.
	launched, ended bool
	first           string
}

// see notes the state of the group.
func (b *balance) see(g *astypes.AutoScalingGroup) {
	old := 0
	for _, i := range g.Instances {
		wasThere := slices.ContainsFunc(b.before, func(o astypes.Instance) bool { return sdk.ToString(o.InstanceId) == sdk.ToString(i.InstanceId) })
		if wasThere && i.LifecycleState == astypes.LifecycleStateInService {
			old++
		}
		b.launched = b.launched || !wasThere && sdk.ToString(i.AvailabilityZone) == b.zone
	}
	b.ended = old < len(b.before)
	switch {
	case b.first != "":
	case b.launched:
		b.first = "a launch in the empty zone, then a termination"
	case b.ended:
		b.first = "a termination before a launch"
	}
}

// standbyZones empties a zone by standby and watches the group.
func (s *session) standbyZones(ctx context.Context) (string, error) {
	if err := s.settle(ctx, 3); err != nil {
		return "", err
	}
	g, err := s.mustGroup(ctx)
	if err != nil {
		return "", err
	}
	single := lonely(g)
	b := &balance{zone: sdk.ToString(single.AvailabilityZone), before: slices.DeleteFunc(inService(g), func(i astypes.Instance) bool {
		return sdk.ToString(i.InstanceId) == sdk.ToString(single.InstanceId)
	})}
	if err := s.enterStandby(ctx, sdk.ToString(single.InstanceId)); err != nil {
		return "", err
	}
	began := s.Now()
	isBalanced, err := s.Watch(ctx, realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		b.see(g)
		return b.launched && b.ended, nil
	})
	switch {
	case err != nil:
		return "", err
	case isBalanced:
		s.Measure("the zones are balanced again", s.Now().Sub(began))
		return b.first, nil
	case b.launched:
		return "a launch in the empty zone, and no termination", nil
	}
	return "nothing", nil
}
