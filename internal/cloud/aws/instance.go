package aws

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// SameInstance implements cloud.ImageProvider. Zone and case are not part of an instance's identity.
func (p *ImageProvider) SameInstance(a, b cloud.InstanceID) bool {
	x, errX := parseInstance(a)
	y, errY := parseInstance(b)
	if errX != nil || errY != nil {
		return a == b
	}
	return x.region == y.region && x.id == y.id
}

// Instance implements cloud.ImageProvider. The name of an image costs an additional request, once per image.
func (p *ImageProvider) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Instance{}, err
	}
	m, err := p.readInstance(ctx, ref)
	if err != nil {
		return cloud.Instance{}, err
	}
	out, err := p.instanceOf(ctx, ref.region, m)
	out.ID = id
	return out, err
}

// readInstance reads an instance. EC2 shows a terminated instance for about an hour; machine returns NotFound.
func (a *account) readInstance(ctx context.Context, ref instance) (types.Instance, error) {
	out, err := a.ec2(ref.region).DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{ref.id}})
	if err != nil {
		return types.Instance{}, fail("read", ref, err)
	}
	for _, reservation := range out.Reservations {
		for _, m := range reservation.Instances {
			if sdk.ToString(m.InstanceId) == ref.id && stateOf(m) != types.InstanceStateNameTerminated {
				return m, nil
			}
		}
	}
	return types.Instance{}, &cloud.Error{Kind: cloud.NotFound, Op: "read", Resource: ref.String(), Message: "there is no such instance in " + ref.region}
}

func stateOf(m types.Instance) types.InstanceStateName {
	if m.State == nil {
		return ""
	}
	return m.State.Name
}

// powerOf returns an instance's power state. Source: "Amazon EC2 instance state changes".
func powerOf(m types.Instance) cloud.Power {
	switch stateOf(m) {
	case types.InstanceStateNameRunning:
		return cloud.PowerRunning
	case types.InstanceStateNamePending:
		return cloud.PowerStarting
	case types.InstanceStateNameStopped, types.InstanceStateNameTerminated:
		return cloud.PowerStopped
	case types.InstanceStateNameStopping, types.InstanceStateNameShuttingDown:
		return cloud.PowerStopping
	default:
		return cloud.PowerUnknown
	}
}

// refusalsOf returns the reasons against a capture of the instance, as visible in DescribeInstances.
func refusalsOf(ref instance, m types.Instance) []cloud.Refusal {
	var found []cloud.Refusal
	if m.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
		found = append(found, cloud.Refuse(cloud.StopTerminates,
			fmt.Sprintf("%s is a spot instance; AWS may terminate a stopped spot instance, or refuse to start the instance again", ref),
			"capture a node of an on-demand instance"))
	}
	if m.RootDeviceType == types.DeviceTypeInstanceStore {
		found = append(found, cloud.Refuse(cloud.DiskUnsupported,
			fmt.Sprintf("%s has a root disk on an instance store, which AWS deletes at a stop and cannot copy", ref),
			"use an image whose root is an EBS volume"))
	}
	if strings.EqualFold(string(m.Platform), string(types.PlatformValuesWindows)) { // the API's value is in lower case
		found = append(found, cloud.Refuse(cloud.SystemUnsupported,
			fmt.Sprintf("%s runs Windows; only Linux nodes can be captured", ref), "leave the pool out"))
	}
	return found
}

// EnsureStopped implements cloud.ImageProvider.
func (p *ImageProvider) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return p.changePower(ctx, id, cloud.PowerRunning, func(client *ec2.Client, ref instance) (cloud.Power, error) {
		out, err := client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{ref.id}})
		if err != nil {
			return cloud.PowerRunning, fail("stop", ref, err)
		}
		return stateAfter(out.StoppingInstances, cloud.PowerStopping), nil
	})
}

// EnsureStarted implements cloud.ImageProvider. Missing capacity at AWS is Unavailable: the same call may succeed later.
func (p *ImageProvider) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return p.changePower(ctx, id, cloud.PowerStopped, func(client *ec2.Client, ref instance) (cloud.Power, error) {
		out, err := client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{ref.id}})
		if err != nil {
			return cloud.PowerStopped, fail("start", ref, err)
		}
		return stateAfter(out.StartingInstances, cloud.PowerStarting), nil
	})
}

// Restart implements cloud.ImageProvider. AWS cuts the power of an instance that does not restart within a few minutes.
// Source: "Reboot your Amazon EC2 instance".
func (p *ImageProvider) Restart(ctx context.Context, id cloud.InstanceID) error {
	ref, err := parseInstance(id)
	if err != nil {
		return err
	}
	_, err = p.ec2(ref.region).RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{ref.id}})
	return fail("restart", ref, err)
}

// changePower changes the power state of an instance in the state from. In any other state turn changes nothing.
func (p *ImageProvider) changePower(ctx context.Context, id cloud.InstanceID, from cloud.Power,
	change func(*ec2.Client, instance) (cloud.Power, error)) (cloud.Power, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	m, err := p.readInstance(ctx, ref)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	if power := powerOf(m); power != from {
		return power, nil
	}
	return change(p.ec2(ref.region), ref)
}

// stateAfter returns the state from the answer of AWS.
func stateAfter(changes []types.InstanceStateChange, otherwise cloud.Power) cloud.Power {
	for _, change := range changes {
		if change.CurrentState != nil {
			return powerOf(types.Instance{State: change.CurrentState})
		}
	}
	return otherwise
}
