package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// warmed are the instances of the group's warm pool, by ID.
func (s *session) warmed(ctx context.Context) (map[string]astypes.LifecycleState, error) {
	out, err := s.groups.DescribeWarmPool(ctx, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: s.groupName()})
	if err != nil {
		return nil, err
	}
	all := map[string]astypes.LifecycleState{}
	for _, i := range out.Instances {
		all[sdk.ToString(i.InstanceId)] = i.LifecycleState
	}
	return all, nil
}

// putWarm sets how many instances group and warm pool have together.
func (s *session) putWarm(ctx context.Context, together int32) error {
	_, err := s.groups.PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: s.groupName(), MinSize: sdk.Int32(0),
		MaxGroupPreparedCapacity: sdk.Int32(together), PoolState: astypes.WarmPoolStateRunning})
	return err
}

// endWarm removes the warm pool, and reports whether there is none any more.
func (s *session) endWarm(ctx context.Context, g *astypes.AutoScalingGroup) (bool, error) {
	if g.WarmPoolConfiguration == nil {
		return true, nil
	}
	if g.WarmPoolConfiguration.Status == astypes.WarmPoolStatusPendingDelete {
		return false, nil
	}
	_, err := s.groups.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: s.groupName(), ForceDelete: sdk.Bool(true)})
	return false, err
}

// warmSmaller lets one of two instances leave the warm pool, and makes the warm pool smaller meanwhile.
func (s *session) warmSmaller(ctx context.Context) (string, error) {
	if err := s.settle(ctx, 2); err != nil {
		return "", err
	}
	began := s.Now()
	if err := s.putWarm(ctx, 4); err != nil {
		return "", err
	}
	var waiting map[string]astypes.LifecycleState
	err := s.Until(ctx, "two instances in the warm pool", realcloud.LookFor, func() (ready bool, err error) {
		waiting, err = s.warmed(ctx)
		ready = len(waiting) == 2
		for _, state := range waiting {
			ready = ready && state == astypes.LifecycleStateWarmedRunning
		}
		return ready, err
	})
	if err != nil {
		return "", err
	}
	s.Measure("two instances in a warm pool", s.Now().Sub(began))
	if err := s.resize(ctx, maxGroup, 3, ""); err != nil {
		return "", err
	}
	if err := s.putWarm(ctx, 3); err != nil {
		return "", err
	}
	seen := ""
	if err := s.Until(ctx, "a group of three without instances that wait", realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		warm, err := s.warmed(ctx)
		if err != nil || len(warm) > 0 || len(inService(g)) != 3 {
			return false, err
		}
		joined := 0
		for _, i := range inService(g) {
			if _, was := waiting[sdk.ToString(i.InstanceId)]; was {
				joined++
			}
		}
		seen = fmt.Sprintf("%d of two came into service", joined)
		return true, nil
	}); err != nil {
		return "", err
	}
	return seen, s.settle(ctx, 2)
}
