package region

import (
	"context"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// ClusterAPI is a simulated cloud with MachineDeployments or MachinePools of one Cluster as pools. The controllers
// run the instances.
type ClusterAPI struct {
	baseCloud
	objects client.Client
	cluster types.NamespacedName
	version string
	// withProvider: the real infrastructure provider for AWS runs the instances.
	withProvider bool
}

var _ Region = (*ClusterAPI)(nil)

// baseCloud is a cloud with an infrastructure provider of Cluster API.
type baseCloud interface {
	Region
	// owns selects the Nodes of a pool that the cloud does not know as a pool; versions returns the versions of an
	// image family.
	owns(pool string) func(*corev1.Node) bool
	versions(ctx context.Context, line string) ([]Version, error)

	// capiGroup is the group of the kinds, capiKind the prefix of their names, and capiCluster the spec of the
	// infrastructure cluster.
	capiGroup() schema.GroupVersion
	capiKind() string
	capiCluster() map[string]any
	// capiMachine is the spec of a pool's machines, capiImage the image that a spec names, and capiInstance the instance of a provider ID.
	capiMachine() map[string]any
	capiImage(spec map[string]any) string
	capiInstance(providerID string) string
	capiMaker(cluster string) capi.Maker
	// capiPool is a MachinePool.
	capiPool(spec pool.Spec) poolShape
	// capiVariable is where a ClusterClass's variable with the image goes, the variable's schema, and the generic image as its value.
	capiVariable() (path, schema string, generic any)
}

// poolShape is the infrastructure object of a MachinePool on a cloud.
type poolShape struct {
	// spec and annotations of the infrastructure object. machine is the path of the machines' spec in the object.
	spec        map[string]any
	annotations map[string]any
	machine     []string
}

// NewClusterAPI adds Cluster API to a cloud. The client reads and writes the objects. Version is the Kubernetes
// version of the images.
func NewClusterAPI(over Region, objects client.Client, cluster types.NamespacedName, version string) (*ClusterAPI, error) {
	u, able := over.(baseCloud)
	if !able {
		return nil, fmt.Errorf("there is no infrastructure provider of Cluster API's for %T", over)
	}
	return &ClusterAPI{baseCloud: u, objects: objects, cluster: cluster, version: version}, nil
}

// Base is the cloud without Cluster API.
func (c *ClusterAPI) Base() Region { return c.baseCloud }

// Makers run machines for the infrastructure provider, by kind of object.
func (c *ClusterAPI) Makers() map[string]capi.Maker {
	return map[string]capi.Maker{c.capiKind() + "Machine": c.capiMaker(c.cluster.Name)}
}

// ScaleSets are the scale sets of the provider for Azure, for machine pools; nil on other clouds.
func (c *ClusterAPI) ScaleSets() capi.ScaleSets {
	if a, is := c.baseCloud.(*Azure); is {
		return azureSets{a, c.cluster.Name}
	}
	return nil
}

// Groups are the groups of the provider for AWS, for machine pools; nil on other clouds.
func (c *ClusterAPI) Groups() capi.Groups {
	if a, is := c.baseCloud.(*AWS); is {
		return NewGroups(a.ec2, a.groups, subnets(a.config.Facts.AWS.Region)[0].ID, c.cluster.Name)
	}
	return nil
}

// inGroup returns AWS if the pool is an Auto Scaling group that holds the size of the pool.
func (c *ClusterAPI) inGroup(f poolKind) (*AWS, bool) {
	a, is := c.baseCloud.(*AWS)
	return a, is && f.kind == machinePools.kind
}

// MakePool implements Region. The user data are Cluster API's own.
func (c *ClusterAPI) MakePool(ctx context.Context, spec pool.Spec, _ string) error {
	o, _, err := c.findSized(ctx, spec)
	if err != nil {
		return err
	}
	isNew := o == nil
	if isNew {
		made := c.makeDeployment
		switch spec.Kind {
		case pool.ClusterClass:
			made = c.makeOfTopology
		case pool.MachinePool:
			made = c.makeMachinePool
		case pool.MachineDeployment:
		}
		if err := made(ctx, spec); err != nil {
			return err
		}
	}
	return await(ctx, func() (bool, error) {
		p, found, err := c.Pool(ctx, spec)
		ids, wrong := c.Instances(ctx, spec)
		// A new machine pool has no group at first, and so a size of zero.
		return found && int64(len(ids)) == p.Capacity && (!isNew || p.Capacity == int64(spec.Nodes)), errors.Join(err, wrong)
	})
}

// Pool implements Region.
func (c *ClusterAPI) Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error) {
	o, f, err := c.findSized(ctx, spec)
	if err != nil || o == nil {
		return control.Pool{}, false, err
	}
	p := control.Pool{Spec: spec, Group: spec.Name, ID: "cluster.x-k8s.io/" + c.cluster.Namespace + "/" + f.resource + "/" + spec.Name, Extensions: []string{}}
	if p.Capacity, err = c.size(ctx, o, f); err != nil {
		return p, true, err
	}
	by, err := c.infrastructureOf(ctx, o)
	if err != nil {
		return p, true, err
	}
	machine, _, _ := unstructured.NestedMap(by.Object, f.machine...)
	p.Image = c.capiImage(machine)
	return p, true, nil
}

// size returns the wanted size of a pool.
func (c *ClusterAPI) size(ctx context.Context, o *unstructured.Unstructured, f poolKind) (int64, error) {
	if a, is := c.inGroup(f); is {
		g, _, err := a.groupNamed(ctx, o.GetName())
		return int64(sdk.ToInt32(g.DesiredCapacity)), err
	}
	n, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return n, err
}

// machines of a pool.
func (c *ClusterAPI) machines(ctx context.Context, spec pool.Spec) ([]unstructured.Unstructured, error) {
	o, f, err := c.findSized(ctx, spec)
	if err != nil || o == nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(core.WithKind("MachineList"))
	err = c.objects.List(ctx, list, client.InNamespace(c.cluster.Namespace), client.MatchingLabels{f.label: spec.Name})
	return list.Items, err
}

func providerID(m unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	return id
}

// Instances implements Region: returns the instances of the pool's Machines.
func (c *ClusterAPI) Instances(ctx context.Context, spec pool.Spec) ([]string, error) {
	return c.instances(ctx, spec, func(unstructured.Unstructured) bool { return true })
}

// Protected implements Region: returns Machines that are protected from removal or remediation, and instances in standby
// in their group.
func (c *ClusterAPI) Protected(ctx context.Context, spec pool.Spec) ([]string, error) {
	_, f, err := c.findSized(ctx, spec)
	if err != nil {
		return nil, err
	}
	var aside []string
	if a, is := c.inGroup(f); is {
		if aside, err = a.protectedIn(ctx, spec.Name); err != nil {
			return nil, err
		}
	}
	marked, err := c.marked(ctx, spec)
	return slices.Compact(slices.Sorted(slices.Values(append(marked, aside...)))), err
}

func (c *ClusterAPI) marked(ctx context.Context, spec pool.Spec) ([]string, error) {
	return c.instances(ctx, spec, func(m unstructured.Unstructured) bool {
		for key := range m.GetAnnotations() {
			if key == "cluster.x-k8s.io/skip-remediation" || key == "pre-drain.delete.hook.machine.cluster.x-k8s.io/kamino" {
				return true
			}
		}
		return false
	})
}

func (c *ClusterAPI) instances(ctx context.Context, spec pool.Spec, of func(unstructured.Unstructured) bool) ([]string, error) {
	all, err := c.machines(ctx, spec)
	var ids []string
	for _, m := range all {
		if id := providerID(m); id != "" && of(m) {
			ids = append(ids, c.capiInstance(id))
		}
	}
	return ids, err
}

// Owns implements Region. A Node names only its instance; the instance names its MachineDeployment.
func (c *ClusterAPI) Owns(spec pool.Spec) func(*corev1.Node) bool { return c.owns(spec.Name) }

// Resize implements Region, as the autoscaler of Cluster API, or as the autoscaler of AWS if the group holds the
// size.
func (c *ClusterAPI) Resize(ctx context.Context, spec pool.Spec, nodes int64) (int64, func(context.Context) error, error) {
	o, f, err := c.mustFindSized(ctx, spec)
	if err != nil {
		return 0, nil, err
	}
	was, err := c.size(ctx, o, f)
	if err != nil {
		return 0, nil, err
	}
	if a, is := c.inGroup(f); is {
		return was, nil, a.resize(ctx, spec.Name, nodes)
	}
	return was, nil, c.replicas(ctx, o, nodes)
}

func (c *ClusterAPI) replicas(ctx context.Context, sized *unstructured.Unstructured, nodes int64) error {
	return c.objects.Patch(ctx, sized, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, nodes)))
}

// Remove implements Region: marks the Machine and reduces the size of the pool, or deletes the instance in its group.
func (c *ClusterAPI) Remove(ctx context.Context, m machine.Status) error {
	spec := pool.Spec{Name: m.Pool}
	all, err := c.machines(ctx, spec)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(o unstructured.Unstructured) bool {
		id := providerID(o)
		return id != "" && c.capiInstance(id) == m.ID
	})
	if at < 0 {
		return fmt.Errorf("instance %s has no Machine in pool %s", m.ID, m.Pool)
	}
	o, f, err := c.mustFindSized(ctx, spec)
	if err != nil {
		return err
	}
	if a, is := c.inGroup(f); is {
		err = a.Remove(ctx, m)
	} else {
		err = c.removeMachine(ctx, o, &all[at])
	}
	if err != nil {
		return err
	}
	return await(ctx, func() (bool, error) {
		err := c.objects.Get(ctx, client.ObjectKeyFromObject(&all[at]), &all[at])
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// removeMachine marks a Machine, and reduces the size of its pool.
func (c *ClusterAPI) removeMachine(ctx context.Context, o, m *unstructured.Unstructured) error {
	mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"yes"}}}`))
	if err := c.objects.Patch(ctx, m, mark); err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return c.replicas(ctx, o, size-1)
}

// Versions implements Region. A line is called after Cluster and pool.
func (c *ClusterAPI) Versions(ctx context.Context, spec pool.Spec) ([]Version, error) {
	_, f, err := c.findSized(ctx, spec)
	if err != nil {
		return nil, err
	}
	return c.versions(ctx, c.cluster.Name+"."+spec.Name+f.suffix)
}
