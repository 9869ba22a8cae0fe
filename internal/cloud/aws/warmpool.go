package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// limitsOf returns the limits of a warm pool.
func limitsOf(c types.WarmPoolConfiguration) cloud.WarmLimits {
	limits := cloud.WarmLimits{Min: int64(sdk.ToInt32(c.MinSize)), Prepared: -1}
	if c.MaxGroupPreparedCapacity != nil {
		limits.Prepared = int64(*c.MaxGroupPreparedCapacity)
	}
	return limits
}

// warmPool returns the warm pool of a group; nil without one, and while AWS deletes it. A credential for captures only may not read the
// instances.
func (p *PoolProvider) warmPool(ctx context.Context, ref group, g types.AutoScalingGroup) (*cloud.WarmPool, error) {
	c := g.WarmPoolConfiguration
	if c == nil || c.Status == types.WarmPoolStatusPendingDelete {
		return nil, nil
	}
	out := &cloud.WarmPool{Limits: limitsOf(*c), Reuses: c.InstanceReusePolicy != nil && sdk.ToBool(c.InstanceReusePolicy.ReuseOnScaleIn)}
	settled := map[string]bool{}
	pages := autoscaling.NewDescribeWarmPoolPaginator(p.autoScaling(ref.region), &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: sdk.String(ref.name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err = fail("read the warm pool of", ref, err); cloud.Is(err, cloud.Denied) {
			out.Unknown = "the credential may not do autoscaling:DescribeWarmPool"
			return out, nil
		} else if err != nil {
			return nil, err
		}
		for _, m := range page.Instances {
			switch m.LifecycleState {
			case types.LifecycleStateWarmedStopped, types.LifecycleStateWarmedRunning, types.LifecycleStateWarmedHibernated:
				settled[sdk.ToString(m.InstanceId)] = true
			default:
				out.Changing++
			}
		}
	}
	if len(settled) == 0 {
		return out, nil
	}
	filter := ec2types.Filter{Name: sdk.String("tag:aws:autoscaling:groupName"), Values: []string{ref.name}}
	err := p.eachInstance(ctx, ref.region, ref, filter, func(m ec2types.Instance) error {
		if !settled[sdk.ToString(m.InstanceId)] {
			return nil
		}
		one, err := p.instanceOf(ctx, ref.region, m)
		out.Instances = append(out.Instances, one)
		return err
	})
	return out, err
}

// warmCaution says what the warm pool of a group means for its next nodes.
func warmCaution(ref group, w cloud.WarmPool) cloud.Refusal {
	what := fmt.Sprintf("%s: the next nodes come from a warm pool, with the image from when they were launched", ref)
	if w.Reuses {
		what += ", and nodes return to the warm pool at scale-in (ReuseOnScaleIn)"
	}
	return cloud.Refuse(cautionWarm, what, "to let Kamino replace older instances of the warm pool after a promotion, "+cloud.PowerRemedy("aws", cloud.ForWarmPool))
}

// ResizeWarmPool implements cloud.PoolProvider. AWS ends surplus instances, which it takes from the warm pool only. Termination by ID could
// end an instance that has just become a node, and AWS refuses TerminateInstanceInAutoScalingGroup for a warm pool.
func (p *PoolProvider) ResizeWarmPool(ctx context.Context, pool cloud.PoolID, from, to cloud.WarmLimits) error {
	const op = "resize the warm pool of"
	ref, err := parsePool(pool)
	if err != nil {
		return err
	}
	out, err := p.autoScaling(ref.region).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{ref.name}})
	if err != nil {
		return fail(op, ref, err)
	}
	var c *types.WarmPoolConfiguration
	for _, g := range out.AutoScalingGroups {
		if sdk.ToString(g.AutoScalingGroupARN) == string(pool) {
			c = g.WarmPoolConfiguration
		}
	}
	switch {
	case c == nil || c.Status == types.WarmPoolStatusPendingDelete:
		return &cloud.Error{Kind: cloud.NotFound, Op: op, Resource: ref.String(), Message: "the group has no warm pool"}
	case limitsOf(*c) == to:
		return nil
	case limitsOf(*c) != from:
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(), Message: "another client changed the warm pool"}
	}
	_, err = p.autoScaling(ref.region).PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: sdk.String(ref.name),
		MinSize: sdk.Int32(int32(to.Min)), MaxGroupPreparedCapacity: sdk.Int32(int32(max(to.Prepared, -1))), PoolState: c.PoolState,
		InstanceReusePolicy: c.InstanceReusePolicy})
	if err != nil {
		return fail(op, ref, err)
	}
	return nil
}
