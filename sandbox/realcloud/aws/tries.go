package aws

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// missingContext evaluates a policy with a condition, without the value of its key. No policy is stored.
func (s *session) missingContext(ctx context.Context) (string, error) {
	const key = "aws:ResourceTag/kamino"
	out, err := s.iam.SimulateCustomPolicy(ctx, &iam.SimulateCustomPolicyInput{ActionNames: []string{"ec2:TerminateInstances"},
		PolicyInputList: []string{`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:TerminateInstances","Resource":"*",` +
			`"Condition":{"StringEquals":{"` + key + `":"yes"}}}]}`}})
	if err != nil {
		return "", err
	}
	for _, r := range out.EvaluationResults {
		if slices.Contains(r.MissingContextValues, key) {
			return "the key is named", nil
		}
	}
	return "the key is not named", nil
}

// noKey is the ID of a KMS key that does not exist.
const noKey = "00000000-0000-0000-0000-000000000000"

// unusableKey makes a volume with a key that does not exist.
func (s *session) unusableKey(ctx context.Context) (string, error) {
	out, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(s.zones[0]), Size: sdk.Int32(1), VolumeType: types.VolumeTypeGp3,
		Encrypted: sdk.Bool(true), KmsKeyId: sdk.String(noKey), TagSpecifications: s.tagged(types.ResourceTypeVolume)})
	if err != nil {
		return "refused: " + code(err), nil
	}
	began, shown := s.Now(), false
	gone, err := s.Watch(ctx, 2*realcloud.Quiet, func() (bool, error) {
		found, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: append(s.ours(), filter("volume-id", sdk.ToString(out.VolumeId)))})
		if err != nil {
			return false, err
		}
		shown = shown || len(found.Volumes) > 0
		return len(found.Volumes) == 0 && (shown || s.Now().Sub(began) > realcloud.Settled), nil
	})
	if gone {
		s.Measure("until a volume with an unusable key is gone", s.Now().Sub(began))
		return "an answer, then no volume", err
	}
	return "an answer, and the volume stays", err
}

// beside launches an instance outside the group. Repeated with a name, it is the same instance.
func (s *session) beside(ctx context.Context, name, version string, change func(*ec2.RunInstancesInput)) (string, error) {
	in := &ec2.RunInstancesInput{MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), ClientToken: sdk.String(s.Name() + "-" + name),
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(s.template), Version: sdk.String(version)},
		TagSpecifications: s.tagged(types.ResourceTypeInstance)}
	change(in)
	out, err := s.ec2.RunInstances(ctx, in)
	if err != nil {
		return "", err
	}
	return sdk.ToString(out.Instances[0].InstanceId), nil
}

// alive launches an instance beside the group that is not terminated, as that of an interrupted run may be.
func (s *session) alive(ctx context.Context, name, version string, change func(*ec2.RunInstancesInput)) (string, error) {
	for n := range 5 {
		id, err := s.beside(ctx, fmt.Sprintf("%s-%d", name, n), version, change)
		if err != nil {
			return "", err
		}
		var i *types.Instance
		if err := s.Until(ctx, "a new instance", 2*realcloud.Settled, func() (bool, error) {
			i, err = s.instance(ctx, id)
			return i != nil, err
		}); err != nil {
			return "", err
		}
		if !isEnded(i) {
			return id, nil
		}
	}
	return "", fmt.Errorf("five instances were terminated at once")
}

func isEnded(i *types.Instance) bool {
	return i.State.Name == types.InstanceStateNameTerminated || i.State.Name == types.InstanceStateNameShuttingDown
}

// instance is an instance of the run; nil while it is not shown.
func (s *session) instance(ctx context.Context, id string) (*types.Instance, error) {
	out, err := s.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: append(s.ours(), filter("instance-id", id))})
	if err != nil {
		return nil, err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return &i, nil
		}
	}
	return nil, nil
}

// becomes waits for a state of an instance.
func (s *session) becomes(ctx context.Context, id string, state types.InstanceStateName) error {
	began := s.Now()
	if err := s.Until(ctx, "the state "+string(state)+" of an instance", realcloud.LookFor, func() (bool, error) {
		i, err := s.instance(ctx, id)
		return i != nil && i.State.Name == state, err
	}); err != nil {
		return err
	}
	s.Measure("until an instance is "+string(state), s.Now().Sub(began))
	return nil
}

// oldConsole reads the newest console of an instance on Xen.
func (s *session) oldConsole(ctx context.Context) (string, error) {
	id, err := s.alive(ctx, "old", "1", func(in *ec2.RunInstancesInput) { in.InstanceType, in.SubnetId = oldType, sdk.String(s.subnets[0]) })
	if err != nil {
		return "", err
	}
	if err := s.becomes(ctx, id, types.InstanceStateNameRunning); err != nil {
		return "", err
	}
	_, refused := s.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: sdk.String(id), Latest: sdk.Bool(true)})
	if err := s.terminate(ctx, id); err != nil {
		return "", err
	}
	switch {
	case code(refused) != "":
		return code(refused), nil
	case refused != nil:
		return "", refused
	}
	return "an answer", nil
}

// otherSubnet launches a template whose network interface names the first subnet into the second.
func (s *session) otherSubnet(ctx context.Context) (string, error) {
	version, err := s.version(ctx, "interfaces", func(d *types.RequestLaunchTemplateData) {
		d.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: sdk.Int32(0),
			SubnetId: sdk.String(s.subnets[0]), DeleteOnTermination: sdk.Bool(true), AssociatePublicIpAddress: sdk.Bool(false)}}
	})
	if err != nil {
		return "", err
	}
	id, err := s.alive(ctx, "interfaces", version, func(in *ec2.RunInstancesInput) {
		in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: sdk.Int32(0), SubnetId: sdk.String(s.subnets[1]),
			DeleteOnTermination: sdk.Bool(true), AssociatePublicIpAddress: sdk.Bool(false)}}
	})
	if code(err) != "" {
		return "refused: " + code(err), nil
	}
	if err != nil {
		return "", err
	}
	in := ""
	if err := s.Until(ctx, "the subnet of an instance", realcloud.LookFor, func() (bool, error) {
		i, err := s.instance(ctx, id)
		if i != nil {
			in = sdk.ToString(i.SubnetId)
		}
		return in != "", err
	}); err != nil {
		return "", err
	}
	if err := s.terminate(ctx, id); err != nil {
		return "", err
	}
	if in == s.subnets[1] {
		return "an instance in the other subnet", nil
	}
	return "an instance in the template's subnet", nil
}

// newVersion gives the group a new version, and lets it launch.
func (s *session) newVersion(ctx context.Context) (string, error) {
	if err := s.settle(ctx, 2); err != nil {
		return "", err
	}
	version, err := s.version(ctx, "promoted", nil)
	if err != nil {
		return "", err
	}
	g, err := s.mustGroup(ctx)
	if err != nil {
		return "", err
	}
	old := g.Instances
	// The version is some seconds old at most: the group may not know it yet.
	began := s.Now()
	if err := s.resize(ctx, maxGroup, 3, version); err != nil {
		if code(err) == "" {
			return "", err
		}
		return "refused: " + code(err), nil
	}
	has := ""
	err = s.Until(ctx, "a third instance", realcloud.LookFor, func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		for _, i := range g.Instances {
			if !slices.ContainsFunc(old, func(o astypes.Instance) bool { return sdk.ToString(o.InstanceId) == sdk.ToString(i.InstanceId) }) &&
				i.LaunchTemplate != nil {
				has = sdk.ToString(i.LaunchTemplate.Version)
			}
		}
		return has != "" && len(inService(g)) == 3, nil
	})
	if err != nil {
		return "", err
	}
	s.Measure("the group grows by one", s.Now().Sub(began))
	if has == version {
		return "the next instance has the new version", nil
	}
	return "the next instance has the old version", nil
}

// tokenVolume asks for the volume of a client token.
func (s *session) tokenVolume(ctx context.Context) (string, error) {
	out, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(s.zones[0]), Size: sdk.Int32(1), VolumeType: types.VolumeTypeGp3,
		ClientToken: sdk.String(s.Name() + "-volume"), TagSpecifications: s.tagged(types.ResourceTypeVolume)})
	if err != nil {
		return "", err
	}
	return sdk.ToString(out.VolumeId), nil
}

func (s *session) tokenInstance(ctx context.Context) (string, error) {
	return s.beside(ctx, "token", "1", func(in *ec2.RunInstancesInput) { in.SubnetId = sdk.String(s.subnets[0]) })
}

// keepTokens makes a volume and an instance with client tokens at the begin of a run. They stay until its end; the last check ends
// the instance.
func (s *session) keepTokens(ctx context.Context) error {
	volumes, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: append(s.ours(), filter("status", "available"))})
	if err != nil {
		return err
	}
	if len(volumes.Volumes) == 0 {
		began := s.Now()
		id, err := s.tokenVolume(ctx)
		if err != nil {
			return err
		}
		err = s.Until(ctx, "a new volume", realcloud.LookFor, func() (bool, error) {
			out, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: append(s.ours(), filter("volume-id", id), filter("status", "available"))})
			return err == nil && len(out.Volumes) > 0, err
		})
		if err != nil {
			return err
		}
		s.Measure("until a volume is available", s.Now().Sub(began))
	}
	id, err := s.tokenInstance(ctx)
	if err != nil {
		return err
	}
	var i *types.Instance
	if err := s.Appears(ctx, "instance", func() (bool, error) {
		i, err = s.instance(ctx, id)
		return i != nil, err
	}); err != nil || isEnded(i) {
		return err
	}
	return s.becomes(ctx, id, types.InstanceStateNameRunning)
}

// volumeToken repeats the request of the begin.
func (s *session) volumeToken(ctx context.Context) (string, error) {
	found, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: append(s.ours(), filter("status", "available"))})
	if err != nil {
		return "", err
	}
	id, err := s.tokenVolume(ctx)
	if err != nil {
		return "", err
	}
	for _, v := range found.Volumes {
		if sdk.ToString(v.VolumeId) == id {
			s.Measure("age of the client token of a volume", s.Now().Sub(sdk.ToTime(v.CreateTime)))
			return "the same volume", nil
		}
	}
	return "another volume", nil
}

// instanceToken repeats the request of the begin.
func (s *session) instanceToken(ctx context.Context) (string, error) {
	id, err := s.tokenInstance(ctx)
	if err != nil {
		return "", err
	}
	i, err := s.instance(ctx, id)
	if err != nil {
		return "", err
	}
	if i == nil || i.State.Name == types.InstanceStateNamePending {
		return "another instance", nil
	}
	s.Measure("age of the client token of an instance", s.Now().Sub(sdk.ToTime(i.LaunchTime)))
	return "the same instance", nil
}

// terminatedShown ends the instance of the token and looks for it some minutes later. An hour would cost more than it shows.
func (s *session) terminatedShown(ctx context.Context) (string, error) {
	id, err := s.tokenInstance(ctx)
	if err != nil {
		return "", err
	}
	if err := s.terminate(ctx, id); err != nil {
		return "", err
	}
	if err := s.becomes(ctx, id, types.InstanceStateNameTerminated); err != nil {
		return "", err
	}
	began := s.Now()
	gone, err := s.Watch(ctx, 2*realcloud.Quiet, func() (bool, error) {
		i, err := s.instance(ctx, id)
		return err == nil && i == nil, err
	})
	if gone {
		return "no longer shown", err
	}
	s.Measure("a terminated instance is shown, at least", s.Now().Sub(began))
	return "shown as terminated a while later", err
}
