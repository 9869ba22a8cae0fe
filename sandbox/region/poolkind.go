package region

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// poolKind is the kind of a pool in Cluster API.
type poolKind struct {
	// kind and resource of the object that holds the size.
	kind, resource string
	// label on Machines that names the object, and the suffix that Kamino appends to image names.
	label, suffix string
	// machine is the path of the machines' spec in the infrastructure object; for a MachinePool, the path depends on
	// the cloud.
	machine []string
}

// All forms.
var (
	deployments = poolKind{kind: "MachineDeployment", resource: "machinedeployments", label: "cluster.x-k8s.io/deployment-name",
		machine: []string{"spec", "template", "spec"}}
	machinePools = poolKind{kind: "MachinePool", resource: "machinepools", label: "cluster.x-k8s.io/pool-name", suffix: ".mp"}
)

// findSized is the object that holds the size of a pool; nil if the object does not exist.
func (c *ClusterAPI) findSized(ctx context.Context, spec pool.Spec) (*unstructured.Unstructured, poolKind, error) {
	pooled := machinePools
	pooled.machine = c.capiPool(spec).machine
	for _, f := range []poolKind{deployments, pooled} {
		o := c.object(core, f.kind, spec.Name)
		if err := c.objects.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return o, f, err
		}
	}
	return nil, poolKind{}, nil
}

// mustFindSized is the object that holds the size of a pool; an error if the object does not exist.
func (c *ClusterAPI) mustFindSized(ctx context.Context, spec pool.Spec) (*unstructured.Unstructured, poolKind, error) {
	o, f, err := c.findSized(ctx, spec)
	if err == nil && o == nil {
		err = fmt.Errorf("there is no MachineDeployment and no MachinePool %s", spec.Name)
	}
	return o, f, err
}

// autoscaled are the annotations by which Cluster API's autoscaler knows how large a pool may be.
func autoscaled(spec pool.Spec) map[string]any {
	if spec.Max == 0 {
		return nil
	}
	const prefix = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
	return map[string]any{prefix + "min-size": "1", prefix + "max-size": fmt.Sprint(max(spec.Max, spec.Nodes))}
}

// joins is the bootstrap configuration of a pool's machines, or a template of it.
func (c *ClusterAPI) joins(kind, name string) *unstructured.Unstructured {
	o := c.object(bootstrap, kind, name)
	spec := map[string]any{"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{"name": "{{ ds.meta_data.local_hostname }}"}}}
	if o.Object["spec"] = spec; kind == "KubeadmConfigTemplate" {
		o.Object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
	}
	return o
}

// sizedPool is the object that holds the size of a pool, with references to bootstrap configuration and
// infrastructure.
func (c *ClusterAPI) sizedPool(f poolKind, spec pool.Spec, boot, infra *unstructured.Unstructured) *unstructured.Unstructured {
	o := c.object(core, f.kind, spec.Name)
	o.Object["spec"] = map[string]any{"clusterName": c.cluster.Name, "replicas": int64(spec.Nodes), "template": map[string]any{"spec": map[string]any{
		"clusterName": c.cluster.Name, "version": c.version, "bootstrap": map[string]any{"configRef": ref(boot)}, "infrastructureRef": ref(infra),
	}}}
	if said := autoscaled(spec); said != nil {
		o.Object["metadata"].(map[string]any)["annotations"] = said
	}
	return o
}

// makeDeployment creates a MachineDeployment, and the templates of its machines.
func (c *ClusterAPI) makeDeployment(ctx context.Context, spec pool.Spec) error {
	infra, boot := c.template(spec.Name), c.joins("KubeadmConfigTemplate", spec.Name)
	machines := c.capiMachine()
	if c.withProvider {
		ofPool(machines, spec.Name)
	}
	infra.Object["spec"] = map[string]any{"template": map[string]any{"spec": machines}}
	md := c.sizedPool(deployments, spec, boot, infra)
	md.Object["spec"].(map[string]any)["rollout"] = map[string]any{"strategy": map[string]any{"type": "OnDelete"}}
	return c.make(ctx, infra, boot, md)
}

// makeMachinePool creates a MachinePool whose provider never adds or replaces instances of its own accord.
func (c *ClusterAPI) makeMachinePool(ctx context.Context, spec pool.Spec) error {
	shape := c.capiPool(spec)
	infra, boot := c.object(c.capiGroup(), c.capiKind()+"MachinePool", spec.Name), c.joins("KubeadmConfig", spec.Name)
	infra.Object["spec"] = shape.spec
	if c.withProvider {
		inOneSubnet(shape.spec, c.capiCluster())
	}
	mp := c.sizedPool(machinePools, spec, boot, infra)
	if shape.annotations != nil {
		mp.Object["metadata"].(map[string]any)["annotations"] = shape.annotations
	}
	return c.make(ctx, infra, boot, mp)
}

// makeOfTopology adds a MachineDeployment to the Cluster's topology. The topology controller creates the
// MachineDeployment; makeOfTopology sets the size.
func (c *ClusterAPI) makeOfTopology(ctx context.Context, spec pool.Spec) error {
	entry := map[string]any{"class": "worker", "name": spec.Name, "rollout": map[string]any{"strategy": map[string]any{"type": "OnDelete"}}}
	if said := autoscaled(spec); said != nil {
		entry["metadata"] = map[string]any{"annotations": said}
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster := c.object(core, "Cluster", c.cluster.Name)
		if err := c.objects.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if _, found, _ := unstructured.NestedMap(cluster.Object, "spec", "topology"); !found {
			return fmt.Errorf("cluster %s is made from no ClusterClass: that is decided when a sandbox is made, by its first pools", c.cluster)
		}
		path := []string{"spec", "topology", "workers", "machineDeployments"}
		entries, _, _ := unstructured.NestedSlice(cluster.Object, path...)
		if slices.ContainsFunc(entries, func(e any) bool { return e.(map[string]any)["name"] == spec.Name }) {
			return nil
		}
		if err := unstructured.SetNestedSlice(cluster.Object, append(entries, entry), path...); err != nil {
			return err
		}
		return c.objects.Update(ctx, cluster)
	})
	if err != nil {
		return err
	}
	return await(ctx, func() (bool, error) {
		md, _, err := c.findSized(ctx, spec)
		if err != nil || md == nil {
			return false, err
		}
		return true, c.replicas(ctx, md, int64(spec.Nodes))
	})
}

// template of a pool's machines.
func (c *ClusterAPI) template(name string) *unstructured.Unstructured {
	return c.object(c.capiGroup(), c.capiKind()+"MachineTemplate", name)
}

// infrastructureOf is the infrastructure object or template of a pool.
func (c *ClusterAPI) infrastructureOf(ctx context.Context, sized *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref, _, _ := unstructured.NestedStringMap(sized.Object, "spec", "template", "spec", "infrastructureRef")
	o := c.object(schema.GroupVersion{Group: ref["apiGroup"], Version: c.capiGroup().Version}, ref["kind"], ref["name"])
	return o, c.objects.Get(ctx, client.ObjectKeyFromObject(o), o)
}
