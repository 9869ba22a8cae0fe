package aws

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A group replaces an instance that is stopped, protected from scale-in or not. In standby it neither counts nor replaces it: that is
// the hold. It is entered with the desired capacity made smaller by one, for else the group would launch another instance, and left
// with it made larger again.

// Tokens beside cloud.TokenUnprotected and cloud.TokenProtected, which is in service and not held, but protected from scale-in.
const (
	tokenStandby          = "standby"
	tokenStandbyProtected = "standby,protected"
)

const (
	opHold   = "hold"
	opUnhold = "give back"
)

// stance is how an instance stands to its group.
type stance struct {
	group     string
	lifecycle string
	protected bool
}

func (s stance) standby() bool { return inStandby(s.lifecycle) }

// token of the stance.
func (s stance) token() string {
	switch {
	case s.standby() && s.protected:
		return tokenStandbyProtected
	case s.standby():
		return tokenStandby
	case s.protected:
		return cloud.TokenProtected
	}
	return cloud.TokenUnprotected
}

// readToken reads one.
func readToken(op string, id cloud.InstanceID, token string) (s stance, err error) {
	switch token {
	case cloud.TokenUnprotected, cloud.TokenProtected, tokenStandby, tokenStandbyProtected:
	default:
		return s, &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id), Message: fmt.Sprintf("the token %q is none of this cloud's", token[:min(len(token), cloud.MaxToken)])}
	}
	if s.protected = strings.HasSuffix(token, cloud.TokenProtected); strings.HasPrefix(token, tokenStandby) {
		s.lifecycle = string(types.LifecycleStateStandby)
	}
	return s, nil
}

// Protection implements cloud.PoolProvider. An instance in no group has nothing that could be held off.
func (p *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Protection{}, err
	}
	now, err := p.stance(ctx, ref)
	if err != nil {
		return cloud.Protection{}, err
	}
	if now == nil {
		_, err := p.machine(ctx, ref)
		return cloud.Protection{}, err
	}
	return cloud.Protection{Protected: now.standby(), Token: now.token()}, nil
}

// stance reads how an instance stands to its group; nil if it is in none, or is not there.
func (a *account) stance(ctx context.Context, ref instance) (*stance, error) {
	out, err := a.groups(ref.region).DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{ref.id}})
	if err != nil {
		return nil, fail("look at the group of", ref, err)
	}
	for _, m := range out.AutoScalingInstances {
		if sdk.ToString(m.InstanceId) == ref.id {
			return &stance{sdk.ToString(m.AutoScalingGroupName), sdk.ToString(m.LifecycleState), sdk.ToBool(m.ProtectedFromScaleIn)}, nil
		}
	}
	return nil, nil
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (p *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	ref, _, err := p.held(opHold, id, token)
	if err != nil {
		return err
	}
	now, err := p.stands(ctx, opHold, ref)
	if err != nil || now.standby() {
		return err
	}
	return p.enter(ctx, opHold, ref, now)
}

// Unprotect implements cloud.PoolProvider.
func (p *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	ref, want, err := p.held(opUnhold, id, token)
	if err != nil {
		return err
	}
	now, err := p.stands(ctx, opUnhold, ref)
	if err != nil {
		return err
	}
	switch {
	case want.standby() && !now.standby():
		err = p.enter(ctx, opUnhold, ref, now)
	case !want.standby() && now.standby():
		err = p.exit(ctx, ref, now)
	}
	if err != nil || want.protected == now.protected {
		return err
	}
	_, err = p.groups(ref.region).SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{
		AutoScalingGroupName: sdk.String(now.group), InstanceIds: []string{ref.id}, ProtectedFromScaleIn: sdk.Bool(want.protected),
	})
	return fail(opUnhold, ref, err)
}

func (p *PoolProvider) held(op string, id cloud.InstanceID, token string) (instance, stance, error) {
	want, err := readToken(op, id, token)
	if err != nil {
		return instance{}, want, err
	}
	ref, err := parseInstance(id)
	return ref, want, err
}

// stands is how an instance stands to its group, which it must be in. A look of the same pass is new enough: AWS refuses to enter and to
// leave standby where the instance is not as it was seen.
func (p *PoolProvider) stands(ctx context.Context, op string, ref instance) (*stance, error) {
	now, err := p.stance(ctx, ref)
	if err != nil || now != nil {
		return now, err
	}
	if _, err := p.machine(ctx, ref); err != nil {
		return nil, err
	}
	return nil, &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(), Message: "it is in no Auto Scaling group any more: attach it to its group"}
}

// enter has an instance enter standby. AWS refuses that below the group's minimum.
func (p *PoolProvider) enter(ctx context.Context, op string, ref instance, now *stance) error {
	if now.lifecycle != string(types.LifecycleStateInService) {
		return &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: ref.String(), Message: "it is " + now.lifecycle + " in its group, and not in service: look again"}
	}
	_, err := p.groups(ref.region).EnterStandby(ctx, &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: sdk.String(now.group), InstanceIds: []string{ref.id}, ShouldDecrementDesiredCapacity: sdk.Bool(true),
	})
	return fail(op, ref, err)
}

// exit has an instance leave standby. One that does not run would be replaced at once.
func (p *PoolProvider) exit(ctx context.Context, ref instance, now *stance) error {
	if now.lifecycle != string(types.LifecycleStateStandby) {
		return &cloud.Error{Kind: cloud.Unavailable, Op: opUnhold, Resource: ref.String(), Message: "it is only on its way into standby: look again"}
	}
	m, err := p.machine(ctx, ref)
	if err != nil {
		return err
	}
	if power := powerOf(m); power != cloud.PowerRunning {
		return &cloud.Error{Kind: cloud.Conflict, Op: opUnhold, Resource: ref.String(), Message: fmt.Sprintf("it is %s, and its group would replace it: start it first", strings.ToLower(string(power)))}
	}
	_, err = p.groups(ref.region).ExitStandby(ctx, &autoscaling.ExitStandbyInput{AutoScalingGroupName: sdk.String(now.group), InstanceIds: []string{ref.id}})
	return fail(opUnhold, ref, err)
}
