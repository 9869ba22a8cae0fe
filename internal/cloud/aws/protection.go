package aws

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A group replaces a stopped instance in spite of scale-in protection, but never an instance in standby. So standby protects a
// donor. Entering standby reduces the desired capacity by 1, and leaving adds 1.

// Tokens of AWS besides cloud.TokenUnprotected and cloud.TokenProtected. TokenProtected means in service with scale-in
// protection.
const (
	tokenStandby          = "standby"
	tokenStandbyProtected = "standby,protected"
)

const (
	opProtect   = "hold"
	opUnprotect = "return to service"
)

// groupState is the state of an instance in its group.
type groupState struct {
	group     string
	lifecycle string
	protected bool
}

func (s groupState) standby() bool { return inStandby(s.lifecycle) }

// token returns the token of the state.
func (s groupState) token() string {
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

// readToken parses a token.
func readToken(op string, id cloud.InstanceID, token string) (s groupState, err error) {
	switch token {
	case cloud.TokenUnprotected, cloud.TokenProtected, tokenStandby, tokenStandbyProtected:
	default:
		return s, &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id),
			Message: fmt.Sprintf("the token %q is not a token of this cloud", token[:min(len(token), cloud.MaxToken)])}
	}
	if s.protected = strings.HasSuffix(token, cloud.TokenProtected); strings.HasPrefix(token, tokenStandby) {
		s.lifecycle = string(types.LifecycleStateStandby)
	}
	return s, nil
}

// CapturesInPlace implements cloud.PoolProvider.
func (p *PoolProvider) CapturesInPlace() bool { return true }

// Protection implements cloud.PoolProvider. The token is empty for an instance without a group.
func (p *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Protection{}, err
	}
	if entered, recent := recentStandby(ctx, p.account, ref); recent {
		return cloud.Protection{Protected: true, Token: entered.token()}, nil
	}
	if !isLarge(p.account, ref.region) { // other reads of a pass need the list, too
		if err := listGroups(ctx, p.account, ref.region); err != nil {
			return cloud.Protection{}, err
		}
	}
	now, err := p.groupState(ctx, ref)
	if err != nil {
		return cloud.Protection{}, err
	}
	if now == nil {
		_, err := p.readInstance(ctx, ref)
		return cloud.Protection{}, err
	}
	return cloud.Protection{Protected: now.standby(), Token: now.token()}, nil
}

// standbyLife is how long an instance is assumed to stay in standby, if a pass reads the state right after the change.
const standbyLife = 5 * time.Second

// enteredStandby is the state of an instance from AWS's answer to EnterStandby, with the time of the answer.
type enteredStandby struct {
	groupState
	at time.Time
}

// recentStandby returns the state of an instance that this process has just put into standby. Reads without a cache ask AWS.
func recentStandby(ctx context.Context, a *account, ref instance) (groupState, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	entered, found := a.standbys[ref.region+"/"+ref.id]
	if found && a.config.Now().Sub(entered.at) >= standbyLife {
		delete(a.standbys, ref.region+"/"+ref.id)
		found = false
	}
	return entered.groupState, found && cloud.ReadCacheOf(ctx) != nil
}

// recordStandby records that this process has put an instance into standby; nil removes the record.
func recordStandby(a *account, ref instance, entered *groupState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.standbys, ref.region+"/"+ref.id)
	if entered != nil {
		a.standbys[ref.region+"/"+ref.id] = enteredStandby{*entered, a.config.Now()}
	}
}

// groupState reads the state of an instance in its group; nil for an instance without a group or a missing instance.
func (a *account) groupState(ctx context.Context, ref instance) (*groupState, error) {
	if groups, listed := listedGroups(ctx, ref.region); listed {
		for _, g := range groups {
			for _, m := range g.Instances {
				if sdk.ToString(m.InstanceId) == ref.id {
					return &groupState{sdk.ToString(g.AutoScalingGroupName), string(m.LifecycleState), sdk.ToBool(m.ProtectedFromScaleIn)}, nil
				}
			}
		}
		return nil, nil
	}
	out, err := a.autoScaling(ref.region).DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{ref.id}})
	if err != nil {
		return nil, fail("read the group of", ref, err)
	}
	for _, m := range out.AutoScalingInstances {
		if sdk.ToString(m.InstanceId) == ref.id {
			return &groupState{sdk.ToString(m.AutoScalingGroupName), sdk.ToString(m.LifecycleState), sdk.ToBool(m.ProtectedFromScaleIn)}, nil
		}
	}
	return nil, nil
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (p *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	ref, _, err := parseProtection(opProtect, id, token)
	if err != nil {
		return err
	}
	now, err := p.requireGroupState(ctx, opProtect, ref)
	if err != nil || now.standby() {
		return err
	}
	return p.enterStandby(ctx, opProtect, ref, now)
}

// Unprotect implements cloud.PoolProvider.
func (p *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	ref, want, err := parseProtection(opUnprotect, id, token)
	if err != nil {
		return err
	}
	now, err := p.requireGroupState(ctx, opUnprotect, ref)
	if err != nil {
		return err
	}
	switch {
	case want.standby() && !now.standby():
		err = p.enterStandby(ctx, opUnprotect, ref, now)
	case !want.standby() && now.standby():
		err = p.exitStandby(ctx, ref, now)
	}
	if err != nil || want.protected == now.protected {
		return err
	}
	_, err = p.autoScaling(ref.region).SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{
		AutoScalingGroupName: sdk.String(now.group), InstanceIds: []string{ref.id}, ProtectedFromScaleIn: sdk.Bool(want.protected),
	})
	return fail(opUnprotect, ref, err)
}

func parseProtection(op string, id cloud.InstanceID, token string) (instance, groupState, error) {
	want, err := readToken(op, id, token)
	if err != nil {
		return instance{}, want, err
	}
	ref, err := parseInstance(id)
	return ref, want, err
}

// requireGroupState returns the state of an instance, and Conflict without a group. A cached read is recent enough: AWS refuses a
// change of standby if the state has changed.
func (p *PoolProvider) requireGroupState(ctx context.Context, op string, ref instance) (*groupState, error) {
	now, err := p.groupState(ctx, ref)
	if err != nil || now != nil {
		return now, err
	}
	if _, err := p.readInstance(ctx, ref); err != nil {
		return nil, err
	}
	return nil, &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
		Message: "the instance is no longer in an Auto Scaling group: attach the instance to a group"}
}

// enterStandby puts an instance into standby. AWS refuses below the group's minimum size.
func (p *PoolProvider) enterStandby(ctx context.Context, op string, ref instance, now *groupState) error {
	if now.lifecycle != string(types.LifecycleStateInService) {
		return &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: ref.String(), Message: "the instance is " + now.lifecycle + ", not InService: try again"}
	}
	_, err := p.autoScaling(ref.region).EnterStandby(ctx, &autoscaling.EnterStandbyInput{
		AutoScalingGroupName: sdk.String(now.group), InstanceIds: []string{ref.id}, ShouldDecrementDesiredCapacity: sdk.Bool(true),
	})
	if err == nil {
		recordStandby(p.account, ref, &groupState{now.group, string(types.LifecycleStateEnteringStandby), now.protected})
	}
	return fail(op, ref, err)
}

// exitStandby takes an instance out of standby. The group would replace an instance that is not running.
func (p *PoolProvider) exitStandby(ctx context.Context, ref instance, now *groupState) error {
	if now.lifecycle != string(types.LifecycleStateStandby) {
		return &cloud.Error{Kind: cloud.Unavailable, Op: opUnprotect, Resource: ref.String(), Message: "the instance is still entering standby: try again"}
	}
	m, err := p.readInstance(ctx, ref)
	if err != nil {
		return err
	}
	if power := powerOf(m); power != cloud.PowerRunning {
		return &cloud.Error{Kind: cloud.Conflict, Op: opUnprotect, Resource: ref.String(),
			Message: fmt.Sprintf("the instance is %s, and the group would replace the instance: start the instance first", strings.ToLower(string(power)))}
	}
	recordStandby(p.account, ref, nil)
	_, err = p.autoScaling(ref.region).ExitStandby(ctx,
		&autoscaling.ExitStandbyInput{AutoScalingGroupName: sdk.String(now.group), InstanceIds: []string{ref.id}})
	if full := fullGroup(ctx, p.account, ref, now.group, err); full != nil {
		return full
	}
	return fail(opUnprotect, ref, err)
}

// fullGroup returns the error of an instance that cannot leave standby, because the group is at its maximum size; nil for other
// errors.
func fullGroup(ctx context.Context, a *account, ref instance, name string, err error) error {
	if !isCode(err, "ValidationError") {
		return nil
	}
	var full error
	_ = a.eachGroup(cloud.WithoutReadCache(ctx), ref.region, []string{name}, func(g types.AutoScalingGroup) { // otherwise the first error is returned
		if most := sdk.ToInt32(g.MaxSize); sdk.ToInt32(g.DesiredCapacity) >= most {
			full = &cloud.Error{Kind: cloud.Conflict, Op: opUnprotect, Resource: ref.String(), Err: err,
				Message: fmt.Sprintf(
					"Auto Scaling group %s is at its maximum size of %d, because another instance took the place: raise its maximum by one", name, most)}
		}
	})
	return full
}
