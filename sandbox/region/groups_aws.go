package region

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/sandbox/capi"
)

// awsGroups are the Auto Scaling groups of machine pools of Cluster API's provider for AWS. A group and its launch
// template have the name of the AWSMachinePool.
type awsGroups struct {
	ec2    *ec2.Client
	groups *autoscaling.Client
	// subnet of the instances, and the cluster that owns the instances.
	subnet, cluster string
}

// NewGroups returns the groups of an account whose instances are in a subnet and belong to a Cluster.
func NewGroups(machines *ec2.Client, groups *autoscaling.Client, subnet, cluster string) capi.Groups {
	return awsGroups{machines, groups, subnet, cluster}
}

// latest is how a group names the newest version of its launch template, always.
const latest = "$Latest"

// Get implements capi.Groups.
func (c awsGroups) Get(ctx context.Context, pool capi.Machine) (capi.Group, error) {
	var found capi.Group
	versions, err := c.ec2.DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: sdk.String(pool.Name), Versions: []string{latest}})
	switch {
	case is(err, "InvalidLaunchTemplateName.NotFoundException"):
		return found, nil
	case err != nil:
		return found, shortError(err)
	}
	for _, v := range versions.LaunchTemplateVersions {
		found.Image = sdk.ToString(v.LaunchTemplateData.ImageId)
	}
	out, err := c.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{pool.Name}})
	if err != nil || len(out.AutoScalingGroups) == 0 {
		return found, shortError(err)
	}
	g := out.AutoScalingGroups[0]
	found.There, found.ID, found.Desired = true, sdk.ToString(g.AutoScalingGroupARN), int64(sdk.ToInt32(g.DesiredCapacity))
	if err := errors.Join(c.resume(ctx, g), c.hooks(ctx, pool)); err != nil {
		return found, err
	}
	images, err := c.imagesIn(ctx, pool.Name)
	for _, i := range g.Instances {
		id := sdk.ToString(i.InstanceId)
		found.Instances = append(found.Instances,
			capi.GroupInstance{ID: id, ProviderID: "aws:///" + sdk.ToString(i.AvailabilityZone) + "/" + id, Image: images[id]})
	}
	return found, err
}

// imagesIn returns the images of a group's instances, by instance ID.
func (c awsGroups) imagesIn(ctx context.Context, group string) (map[string]string, error) {
	images := map[string]string{}
	filter := ec2types.Filter{Name: sdk.String("tag:aws:autoscaling:groupName"), Values: []string{group}}
	for pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filter}}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, shortError(err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				images[sdk.ToString(i.InstanceId)] = sdk.ToString(i.ImageId)
			}
		}
	}
	return images, nil
}

// Publish implements capi.Groups.
func (c awsGroups) Publish(ctx context.Context, pool capi.Machine) error {
	ami, _, _ := unstructured.NestedString(pool.Spec, "awsLaunchTemplate", "ami", "id")
	kind, _, _ := unstructured.NestedString(pool.Spec, "awsLaunchTemplate", "instanceType")
	data := &ec2types.RequestLaunchTemplateData{
		ImageId: sdk.String(ami), InstanceType: ec2types.InstanceType(kind), UserData: sdk.String(base64.StdEncoding.EncodeToString(pool.Data)),
		MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired},
	}
	template, _, _ := unstructured.NestedMap(pool.Spec, "awsLaunchTemplate")
	device, size, err := rootVolumeOf(ctx, c.ec2, template)
	if err != nil {
		return err
	}
	if size > 0 {
		data.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: sdk.String(device),
			Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(size)}}}
	}
	_, err = c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String(pool.Name), LaunchTemplateData: data})
	if is(err, "InvalidLaunchTemplateName.AlreadyExistsException") {
		if err := errors.Join(c.cancelRefresh(ctx, pool.Name), c.prune(ctx, pool.Name)); err != nil {
			return err
		}
		_, err = c.ec2.CreateLaunchTemplateVersion(ctx,
			&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: sdk.String(pool.Name), LaunchTemplateData: data})
	}
	return shortError(err)
}

// cancelRefresh cancels an instance refresh of any client, as the provider does before a new version. Source: CAPA v2.13,
// pkg/cloud/services/ec2/launchtemplate.go.
func (c awsGroups) cancelRefresh(ctx context.Context, name string) error {
	_, err := c.groups.CancelInstanceRefresh(ctx, &autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: sdk.String(name)})
	if is(err, "ActiveInstanceRefreshNotFound") || is(err, "ValidationError") { // without a group
		return nil
	}
	return shortError(err)
}

// prune deletes the oldest version that is neither the default nor the latest, even if instances were built from the version.
func (c awsGroups) prune(ctx context.Context, name string) error {
	out, err := c.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: sdk.String(name)})
	if err != nil || len(out.LaunchTemplateVersions) < 3 {
		return shortError(err)
	}
	all := out.LaunchTemplateVersions
	slices.SortFunc(all, func(a, b ec2types.LaunchTemplateVersion) int { return cmp.Compare(*a.VersionNumber, *b.VersionNumber) })
	for _, v := range all[:len(all)-1] {
		if !sdk.ToBool(v.DefaultVersion) {
			_, err := c.ec2.DeleteLaunchTemplateVersions(ctx,
				&ec2.DeleteLaunchTemplateVersionsInput{LaunchTemplateName: sdk.String(name), Versions: []string{strconv.FormatInt(*v.VersionNumber, 10)}})
			return shortError(err)
		}
	}
	return nil
}

// resume ends the suspension of processes that another client suspended. Source: CAPA v2.13,
// exp/controllers/awsmachinepool_controller.go.
func (c awsGroups) resume(ctx context.Context, g astypes.AutoScalingGroup) error {
	if len(g.SuspendedProcesses) == 0 {
		return nil
	}
	in := &autoscaling.ResumeProcessesInput{AutoScalingGroupName: g.AutoScalingGroupName}
	for _, p := range g.SuspendedProcesses {
		in.ScalingProcesses = append(in.ScalingProcesses, sdk.ToString(p.ProcessName))
	}
	_, err := c.groups.ResumeProcesses(ctx, in)
	return shortError(err)
}

// hooks deletes the lifecycle hooks that the spec does not have, and writes the missing hooks. Source: CAPA v2.13,
// pkg/cloud/services/autoscaling/lifecyclehook.go.
func (c awsGroups) hooks(ctx context.Context, pool capi.Machine) error {
	out, err := c.groups.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: sdk.String(pool.Name)})
	if err != nil {
		return shortError(err)
	}
	wanted, _, _ := unstructured.NestedSlice(pool.Spec, "lifecycleHooks")
	missing := map[string]*autoscaling.PutLifecycleHookInput{}
	for _, w := range wanted {
		spec, _ := w.(map[string]any)
		text := func(field string) string {
			value, _, _ := unstructured.NestedString(spec, field)
			return value
		}
		in := &autoscaling.PutLifecycleHookInput{AutoScalingGroupName: sdk.String(pool.Name), LifecycleHookName: sdk.String(text("name")),
			LifecycleTransition: sdk.String(text("lifecycleTransition"))}
		if result := text("defaultResult"); result != "" {
			in.DefaultResult = sdk.String(result)
		}
		if timeout, err := time.ParseDuration(text("heartbeatTimeout")); err == nil {
			in.HeartbeatTimeout = sdk.Int32(int32(timeout.Seconds()))
		}
		missing[text("name")] = in
	}
	for _, h := range out.LifecycleHooks {
		name := sdk.ToString(h.LifecycleHookName)
		if _, found := missing[name]; found {
			delete(missing, name)
			continue
		}
		_, err := c.groups.DeleteLifecycleHook(ctx,
			&autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: h.AutoScalingGroupName, LifecycleHookName: h.LifecycleHookName})
		if err != nil {
			return shortError(err)
		}
	}
	for _, in := range missing {
		if _, err := c.groups.PutLifecycleHook(ctx, in); err != nil {
			return shortError(err)
		}
	}
	return nil
}

// Create implements capi.Groups.
func (c awsGroups) Create(ctx context.Context, pool capi.Machine, desired int64) error {
	least, _, _ := unstructured.NestedInt64(pool.Spec, "minSize")
	most, _, _ := unstructured.NestedInt64(pool.Spec, "maxSize")
	_, err := c.groups.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(pool.Name), MinSize: sdk.Int32(int32(least)), MaxSize: sdk.Int32(int32(most)),
		DesiredCapacity:   sdk.Int32(int32(desired)),
		LaunchTemplate:    &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(pool.Name), Version: sdk.String(latest)},
		VPCZoneIdentifier: sdk.String(c.subnet),
		Tags: []astypes.Tag{
			{Key: sdk.String("sigs.k8s.io/cluster-api-provider-aws/cluster/" + c.cluster), Value: sdk.String("owned"), PropagateAtLaunch: sdk.Bool(true)},
			{Key: sdk.String("sigs.k8s.io/cluster-api-provider-aws/role"), Value: sdk.String("node"), PropagateAtLaunch: sdk.Bool(true)},
			{Key: sdk.String("Name"), Value: sdk.String(pool.Name), PropagateAtLaunch: sdk.Bool(true)},
		},
	})
	if is(err, "AlreadyExists") {
		err = nil
	}
	return shortError(err)
}

// Resize implements capi.Groups.
func (c awsGroups) Resize(ctx context.Context, pool capi.Machine, desired int64) error {
	_, err := c.groups.UpdateAutoScalingGroup(ctx,
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(pool.Name), DesiredCapacity: sdk.Int32(int32(desired))})
	return shortError(err)
}

// Refresh implements capi.Groups.
func (c awsGroups) Refresh(ctx context.Context, pool capi.Machine) error {
	_, err := c.groups.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(pool.Name)})
	if is(err, "InstanceRefreshInProgress") {
		err = nil
	}
	return shortError(err)
}

// Delete implements capi.Groups.
func (c awsGroups) Delete(ctx context.Context, pool capi.Machine) (bool, error) {
	found, err := c.Get(ctx, pool)
	if err != nil {
		return false, err
	}
	if found.There {
		_, err := c.groups.DeleteAutoScalingGroup(ctx,
			&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String(pool.Name), ForceDelete: sdk.Bool(true)})
		if err != nil && strings.Contains(err.Error(), "deletion") {
			err = nil
		}
		return false, shortError(err)
	}
	if found.Image != "" {
		_, err = c.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: sdk.String(pool.Name)})
	}
	return err == nil, shortError(err)
}

// See implements capi.Groups.
func (c awsGroups) See(ctx context.Context, id string) (capi.MachineState, error) {
	out, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: sdk.String("instance-id"), Values: []string{id}}}})
	if err != nil {
		return "", shortError(err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return stateOf(i), nil
		}
	}
	return capi.Terminated, nil
}

// Terminate implements capi.Groups.
func (c awsGroups) Terminate(ctx context.Context, id string) error {
	_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	return shortError(err)
}
