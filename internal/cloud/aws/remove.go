package aws

import (
	"context"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opRemove = "remove"

// EnsureRemoved implements cloud.PoolProvider. An instance in standby is not part of the desired capacity, so the capacity
// stays.
func (p *PoolProvider) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Absent, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	now, err := p.groupState(ctx, ref)
	if err != nil {
		return cloud.Absent, err
	}
	if now == nil || strings.HasPrefix(now.lifecycle, string(types.LifecycleStateTerminating)) || now.lifecycle == string(types.LifecycleStateTerminated) {
		return p.removalState(ctx, ref, now != nil)
	}
	_, err = p.autoScaling(ref.region).TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: sdk.String(ref.id), ShouldDecrementDesiredCapacity: sdk.Bool(!now.standby()),
	})
	if err = fail(opRemove, ref, err); err != nil {
		return cloud.Absent, err
	}
	return cloud.Deleting, nil
}

// removalState returns the state of an instance whose group terminates the instance, or of an instance without a group.
func (p *PoolProvider) removalState(ctx context.Context, ref instance, ends bool) (cloud.State, error) {
	m, err := p.readInstance(ctx, ref)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	case ends || stateOf(m) == ec2types.InstanceStateNameShuttingDown:
		return cloud.Deleting, nil
	}
	return cloud.Absent, &cloud.Error{Kind: cloud.Conflict, Op: opRemove, Resource: ref.String(),
		Message: "the instance is no longer in an Auto Scaling group: terminate the detached instance with `aws ec2 terminate-instances`"}
}
