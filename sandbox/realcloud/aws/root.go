package aws

import (
	"context"
	"errors"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// images are the images of the run, also disabled ones.
func (s *session) images(ctx context.Context) ([]types.Image, error) {
	out, err := s.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: s.ours(), IncludeDisabled: sdk.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Images, nil
}

// snapshots are the snapshots of the run.
func (s *session) snapshots(ctx context.Context) ([]types.Snapshot, error) {
	out, err := s.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: s.ours()})
	if err != nil {
		return nil, err
	}
	return out.Snapshots, nil
}

// rootVolume is the volume that an instance booted from.
func rootVolume(i *types.Instance) string {
	for _, d := range i.BlockDeviceMappings {
		if sdk.ToString(d.DeviceName) == sdk.ToString(i.RootDeviceName) && d.Ebs != nil {
			return sdk.ToString(d.Ebs.VolumeId)
		}
	}
	return ""
}

// donor is an instance of the group, as EC2 shows it.
func (s *session) donor(ctx context.Context) (*types.Instance, error) {
	g, err := s.mustGroup(ctx)
	if err != nil {
		return nil, err
	}
	if len(inService(g)) == 0 {
		return nil, errors.New("the group has no instance in service")
	}
	i, err := s.instance(ctx, sdk.ToString(inService(g)[0].InstanceId))
	if err == nil && i == nil {
		err = errors.New("EC2 does not show an instance of the group")
	}
	return i, err
}

// copyRoot makes a snapshot of the root of a running instance, or finds the one of an interrupted run.
func (s *session) copyRoot(ctx context.Context, i *types.Instance) (string, error) {
	found, err := s.snapshots(ctx)
	if err != nil {
		return "", err
	}
	began := s.Now()
	if len(found) == 0 {
		volume := rootVolume(i)
		if volume == "" {
			return "", errors.New("the instance shows no root volume")
		}
		if _, err := s.ec2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: sdk.String(volume),
			TagSpecifications: s.tagged(types.ResourceTypeSnapshot)}); err != nil {
			return "", err
		}
		if err := s.Appears(ctx, "snapshot", func() (bool, error) {
			found, err = s.snapshots(ctx)
			return len(found) > 0, err
		}); err != nil {
			return "", err
		}
	}
	id := sdk.ToString(found[0].SnapshotId)
	if err := s.Until(ctx, "a complete snapshot", 2*realcloud.LookFor, func() (bool, error) {
		found, err := s.snapshots(ctx)
		at := slices.IndexFunc(found, func(f types.Snapshot) bool { return sdk.ToString(f.SnapshotId) == id })
		return at >= 0 && found[at].State == types.SnapshotStateCompleted, err
	}); err != nil {
		return "", err
	}
	s.Measure("until a snapshot is complete", s.Now().Sub(began))
	return id, nil
}

// uefiVariables registers an image of the root with the variables of the running instance.
func (s *session) uefiVariables(ctx context.Context) (string, error) {
	found, err := s.images(ctx)
	if err != nil {
		return "", err
	}
	began := s.Now()
	if len(found) == 0 { // else an interrupted run has registered it
		in, err := s.registration(ctx)
		if err != nil {
			return "", err
		}
		began = s.Now()
		if _, err := s.ec2.RegisterImage(ctx, in); code(err) != "" {
			return "refused: " + code(err), nil
		} else if err != nil {
			return "", err
		}
		if err := s.Appears(ctx, "image", func() (bool, error) {
			found, err = s.images(ctx)
			return len(found) > 0, err
		}); err != nil {
			return "", err
		}
	}
	state := types.ImageStatePending
	err = s.Until(ctx, "an available image", realcloud.LookFor, func() (bool, error) {
		if found, err = s.images(ctx); err != nil || len(found) == 0 {
			return false, err
		}
		state = found[0].State
		return state != types.ImageStatePending, nil
	})
	if err != nil {
		return "", err
	}
	s.Measure("until an image is available", s.Now().Sub(began))
	if state == types.ImageStateAvailable {
		return "an image that becomes available", nil
	}
	return "an image that is " + string(state), nil
}

// registration is the request for an image of the root of an instance of the group, with the instance's variables.
func (s *session) registration(ctx context.Context) (*ec2.RegisterImageInput, error) {
	i, err := s.donor(ctx)
	if err != nil {
		return nil, err
	}
	variables, err := s.ec2.GetInstanceUefiData(ctx, &ec2.GetInstanceUefiDataInput{InstanceId: i.InstanceId})
	if err != nil {
		return nil, err
	}
	snapshot, err := s.copyRoot(ctx, i)
	if err != nil {
		return nil, err
	}
	in := &ec2.RegisterImageInput{Name: sdk.String(s.Name()), Architecture: types.ArchitectureValuesX8664, VirtualizationType: sdk.String("hvm"),
		EnaSupport: sdk.Bool(true), BootMode: s.image.BootMode, ImdsSupport: types.ImdsSupportValuesV20,
		RootDeviceName: i.RootDeviceName, TagSpecifications: s.tagged(types.ResourceTypeImage),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: i.RootDeviceName, Ebs: &types.EbsBlockDevice{SnapshotId: sdk.String(snapshot),
			VolumeType: types.VolumeTypeGp3, DeleteOnTermination: sdk.Bool(true)}}}}
	if sdk.ToString(variables.UefiData) != "" {
		in.UefiData = variables.UefiData
	}
	return in, nil
}

// rebuild is what the replacement of a root volume showed.
type rebuild struct{ group, image string }

// replaceRoot replaces the root volume of an instance of the group by the run's image, once in a session.
func (s *session) replaceRoot(ctx context.Context) (*rebuild, error) {
	if s.rebuilt != nil {
		return s.rebuilt, nil
	}
	if err := s.settle(ctx, 2); err != nil {
		return nil, err
	}
	found, err := s.images(ctx)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].State != types.ImageStateAvailable {
		return nil, errors.New("the run has no image")
	}
	own := sdk.ToString(found[0].ImageId)
	i, err := s.donor(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := s.sameMembers(ctx)
	if err != nil {
		return nil, err
	}
	state, err := s.replace(ctx, sdk.ToString(i.InstanceId), own, kept)
	if err != nil {
		return nil, err
	}
	same := true
	if _, err := s.Watch(ctx, realcloud.Quiet, func() (bool, error) {
		same, err = kept()
		return !same, err
	}); err != nil {
		return nil, err
	}
	if i, err = s.instance(ctx, sdk.ToString(i.InstanceId)); err != nil {
		return nil, err
	}
	out := &rebuild{group: "the same instances", image: "the task " + string(state)}
	if !same {
		out.group = "an instance was replaced"
	}
	if state == types.ReplaceRootVolumeTaskStateSucceeded && i != nil {
		if out.image = "the old image"; sdk.ToString(i.ImageId) == own {
			out.image = "the new image"
		}
	}
	s.rebuilt = out
	return out, nil
}

// sameMembers returns a look that reports whether the group has had the same instances in service at every look.
func (s *session) sameMembers(ctx context.Context) (func() (bool, error), error) {
	before, err := s.mustGroup(ctx)
	same := true
	return func() (bool, error) {
		g, err := s.mustGroup(ctx)
		if err != nil {
			return false, err
		}
		for _, m := range before.Instances {
			now := member(g, sdk.ToString(m.InstanceId))
			same = same && now != nil && now.LifecycleState == astypes.LifecycleStateInService
		}
		return same, nil
	}, err
}

// replace asks for the replacement and returns the state at its end. Each look at the task is one at the group, too.
func (s *session) replace(ctx context.Context, id, image string, kept func() (bool, error)) (state types.ReplaceRootVolumeTaskState, err error) {
	began := s.Now()
	out, err := s.ec2.CreateReplaceRootVolumeTask(ctx, &ec2.CreateReplaceRootVolumeTaskInput{InstanceId: sdk.String(id), ImageId: sdk.String(image),
		DeleteReplacedRootVolume: sdk.Bool(true), TagSpecifications: s.tagged(types.ResourceTypeReplaceRootVolumeTask)})
	if err != nil {
		return "", err
	}
	task := sdk.ToString(out.ReplaceRootVolumeTask.ReplaceRootVolumeTaskId)
	ends := []types.ReplaceRootVolumeTaskState{types.ReplaceRootVolumeTaskStateSucceeded, types.ReplaceRootVolumeTaskStateFailed,
		types.ReplaceRootVolumeTaskStateFailedDetached}
	err = s.Until(ctx, "a new root volume", realcloud.LookFor, func() (bool, error) {
		tasks, err := s.ec2.DescribeReplaceRootVolumeTasks(ctx, &ec2.DescribeReplaceRootVolumeTasksInput{
			Filters: append(s.ours(), filter("instance-id", id))})
		if err != nil {
			return false, err
		}
		for _, t := range tasks.ReplaceRootVolumeTasks {
			if sdk.ToString(t.ReplaceRootVolumeTaskId) == task {
				state = t.TaskState
			}
		}
		_, err = kept()
		return slices.Contains(ends, state), err
	})
	if err == nil {
		s.Measure("until a root volume is replaced", s.Now().Sub(began))
	}
	return state, err
}

func (s *session) rootInGroup(ctx context.Context) (string, error) {
	r, err := s.replaceRoot(ctx)
	if err != nil {
		return "", err
	}
	return r.group, nil
}

func (s *session) rootImage(ctx context.Context) (string, error) {
	r, err := s.replaceRoot(ctx)
	if err != nil {
		return "", err
	}
	return r.image, nil
}
