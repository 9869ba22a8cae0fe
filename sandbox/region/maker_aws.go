package region

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// Cluster API's provider for AWS, CAPA v2.13, api/v1beta2.

func (a *AWS) capiGroup() schema.GroupVersion {
	return schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
}

func (a *AWS) capiKind() string { return "AWS" }

func (a *AWS) capiCluster() map[string]any {
	var in []any
	for _, n := range subnets(a.config.Facts.AWS.Region) {
		in = append(in, map[string]any{"id": n.ID, "availabilityZone": n.Zone})
	}
	return map[string]any{"region": a.config.Facts.AWS.Region, "network": map[string]any{"vpc": map[string]any{"id": aws.VPC}, "subnets": in}}
}

// capiMachine has the user data handed over as they are, and not through Secrets Manager.
func (a *AWS) capiMachine() map[string]any {
	return map[string]any{"ami": map[string]any{"id": ubuntu}, "instanceType": instanceType, "cloudInit": map[string]any{"insecureSkipSecretsManager": true}}
}

func (a *AWS) capiImage(spec map[string]any) string {
	id, _, _ := unstructured.NestedString(spec, "ami", "id")
	return id
}

// capiPool is a group whose size the cluster autoscaler for AWS holds.
func (a *AWS) capiPool(spec pool.Spec) poolShape {
	least, most := bounds(spec)
	return poolShape{
		spec: map[string]any{
			"minSize": int64(least), "maxSize": int64(most), "refreshPreferences": map[string]any{"disable": true},
			"awsLaunchTemplate": map[string]any{"ami": map[string]any{"id": ubuntu}, "instanceType": instanceType},
		},
		annotations: map[string]any{"cluster.x-k8s.io/replicas-managed-by": "cluster-autoscaler"},
		machine:     []string{"spec", "awsLaunchTemplate"},
	}
}

func (a *AWS) capiVariable() (path, schema string, generic any) {
	return "/spec/template/spec/ami/id", "{type: string}", ubuntu
}

func (a *AWS) capiInstance(providerID string) string { return path.Base(providerID) }

func (a *AWS) capiMaker(cluster string) capi.Maker { return NewMaker(a.ec2, cluster) }

// maker runs an instance for each AWSMachine.
type maker struct {
	ec2     *ec2.Client
	cluster string
}

// NewMaker returns a maker for an account, with instances of a Cluster.
func NewMaker(machines *ec2.Client, cluster string) capi.Maker { return maker{machines, cluster} }

// notCreated is how the provider's messages about refused machines begin.
const notCreated = "failed to create AWSMachine instance"

// Ensure implements capi.Maker: runs an instance. The provider sends no client token, and finds its instance by the provider
// ID, or by name and owner. Source: CAPA v2.13, pkg/cloud/services/ec2/instances.go.
func (c maker) Ensure(ctx context.Context, m capi.Machine) (id string, state capi.MachineState, err error) {
	ami, _, _ := unstructured.NestedString(m.Spec, "ami", "id")
	kind, _, _ := unstructured.NestedString(m.Spec, "instanceType")
	all := []ec2types.Tag{{Key: sdk.String("Name"), Value: sdk.String(m.Name)},
		{Key: sdk.String("sigs.k8s.io/cluster-api-provider-aws/cluster/" + c.cluster), Value: sdk.String("owned")}}
	if of := m.Labels["cluster.x-k8s.io/deployment-name"]; of != "" { // a standalone Machine has no such label
		all = append(all, ec2types.Tag{Key: sdk.String(aws.PoolTag), Value: sdk.String(of)})
	}
	i, err := c.instance(ctx, m)
	if err != nil {
		return "", "", err
	}
	if known := knownID(m); i == nil && known != "" {
		return known, capi.Terminated, nil
	}
	if i == nil {
		device, size, err := rootVolumeOf(ctx, c.ec2, m.Spec)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", notCreated, err)
		}
		in := &ec2.RunInstancesInput{
			ImageId: sdk.String(ami), InstanceType: ec2types.InstanceType(kind), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1),
			UserData:          sdk.String(base64.StdEncoding.EncodeToString(m.Data)),
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: all}},
		}
		if size > 0 {
			in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{{DeviceName: sdk.String(device), Ebs: &ec2types.EbsBlockDevice{VolumeSize: sdk.Int32(size)}}}
		}
		made, err := c.ec2.RunInstances(ctx, in)
		if err != nil {
			return "", "", fmt.Errorf("%s: failed to run instance: %w", notCreated, shortError(err))
		}
		i = &made.Instances[0]
	}
	return "aws:///" + sdk.ToString(i.Placement.AvailabilityZone) + "/" + sdk.ToString(i.InstanceId), stateOf(*i), nil
}

// rootVolumeOf returns the root device of a spec's image and the size in rootVolume, in GiB; 0 without a size. The provider compares the
// size with the snapshot before each request. Source: CAPA v2.13, pkg/cloud/services/ec2/instances.go, checkRootVolume.
func rootVolumeOf(ctx context.Context, machines *ec2.Client, spec map[string]any) (device string, size int32, err error) {
	wanted, found, _ := unstructured.NestedInt64(spec, "rootVolume", "size")
	if !found {
		return "", 0, nil
	}
	ami, _, _ := unstructured.NestedString(spec, "ami", "id")
	out, err := machines.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{ami}})
	if err != nil {
		return "", 0, shortError(err)
	}
	for _, im := range out.Images {
		device = sdk.ToString(im.RootDeviceName)
		for _, d := range im.BlockDeviceMappings {
			if least := d.Ebs; least != nil && sdk.ToString(d.DeviceName) == device && int64(sdk.ToInt32(least.VolumeSize)) > wanted {
				return "", 0, fmt.Errorf("root volume size (%d) must be greater than or equal to snapshot size (%d)", wanted, sdk.ToInt32(least.VolumeSize))
			}
		}
	}
	return device, int32(wanted), nil
}

// knownID is the provider ID in the object; empty before the first answer of the cloud.
func knownID(m capi.Machine) string {
	id, _, _ := unstructured.NestedString(m.Spec, "providerID")
	return id
}

// stateOf returns the state of an instance.
func stateOf(i ec2types.Instance) capi.MachineState {
	switch i.State.Name {
	case ec2types.InstanceStateNameRunning:
		return capi.Running
	case ec2types.InstanceStateNameStopping, ec2types.InstanceStateNameStopped:
		return capi.Stopped
	case ec2types.InstanceStateNameTerminated:
		return capi.Terminated
	default:
		return capi.Pending
	}
}

// Remove implements capi.Maker.
func (c maker) Remove(ctx context.Context, m capi.Machine) (bool, error) {
	i, err := c.instance(ctx, m)
	if err != nil || i == nil || i.State.Name == ec2types.InstanceStateNameTerminated {
		return err == nil, err
	}
	_, err = c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{sdk.ToString(i.InstanceId)}})
	return false, shortError(err)
}

// instance of a machine: by the provider ID, else the pending or running instance with its name and owner. The result is nil
// if the instance does not exist.
func (c maker) instance(ctx context.Context, m capi.Machine) (*ec2types.Instance, error) {
	filter := func(name string, values ...string) ec2types.Filter {
		return ec2types.Filter{Name: sdk.String(name), Values: values}
	}
	filters := []ec2types.Filter{filter("tag:Name", m.Name), filter("tag:sigs.k8s.io/cluster-api-provider-aws/cluster/"+c.cluster, "owned"),
		filter("instance-state-name", "pending", "running")}
	if id := knownID(m); id != "" {
		filters = []ec2types.Filter{filter("instance-id", path.Base(id))}
	}
	out, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: filters})
	if err != nil {
		return nil, shortError(err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return &i, nil
		}
	}
	return nil, nil
}
