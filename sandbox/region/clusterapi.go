package region

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// ClusterAPI is a simulated AWS whose pools are MachineDeployments of one Cluster, at whose orders its instances are run.
type ClusterAPI struct {
	*AWS
	objects client.Client
	cluster types.NamespacedName
	version string
}

var _ Region = (*ClusterAPI)(nil)

// NewClusterAPI lays it over an account. The objects are read and written by the client, and the Cluster is there. Version is that of
// Kubernetes, which the images have.
func NewClusterAPI(a *AWS, objects client.Client, cluster types.NamespacedName, version string) *ClusterAPI {
	return &ClusterAPI{AWS: a, objects: objects, cluster: cluster, version: version}
}

// Groups of the objects.
var (
	core           = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	bootstrap      = schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"}
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
)

func (c *ClusterAPI) object(gv schema.GroupVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gv.WithKind(kind))
	o.SetNamespace(c.cluster.Namespace)
	o.SetName(name)
	return o
}

// MakePool implements Region: a MachineDeployment, and the templates of its machines. The user data are Cluster API's own.
func (c *ClusterAPI) MakePool(ctx context.Context, spec pool.Spec, _ string) error {
	ref := func(gv schema.GroupVersion, kind string) map[string]any {
		return map[string]any{"apiGroup": gv.Group, "kind": kind, "name": spec.Name}
	}
	instance := map[string]any{
		"ami": map[string]any{"id": ubuntu}, "instanceType": instanceType,
		"cloudInit": map[string]any{"insecureSkipSecretsManager": true},
	}
	join := map[string]any{"nodeRegistration": map[string]any{"name": "{{ ds.meta_data.local_hostname }}"}}
	infra, boot, md := c.object(infrastructure, "AWSMachineTemplate", spec.Name), c.object(bootstrap, "KubeadmConfigTemplate", spec.Name), c.object(core, "MachineDeployment", spec.Name)
	infra.Object["spec"] = map[string]any{"template": map[string]any{"spec": instance}}
	boot.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"joinConfiguration": join}}}
	md.Object["spec"] = map[string]any{
		"clusterName": c.cluster.Name, "replicas": int64(spec.Nodes), "rollout": map[string]any{"strategy": map[string]any{"type": "OnDelete"}},
		"template": map[string]any{"spec": map[string]any{
			"clusterName": c.cluster.Name, "version": c.version, "bootstrap": map[string]any{"configRef": ref(bootstrap, "KubeadmConfigTemplate")},
			"infrastructureRef": ref(infrastructure, "AWSMachineTemplate"),
		}},
	}
	if spec.Max > 0 {
		md.SetAnnotations(map[string]string{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1",
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": fmt.Sprint(max(spec.Max, spec.Nodes))})
	}
	for _, o := range []*unstructured.Unstructured{infra, boot, md} {
		o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": c.cluster.Name})
		if err := c.objects.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("make %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return c.await(ctx, func() (bool, error) {
		p, found, err := c.Pool(ctx, spec)
		ids, wrong := c.Instances(ctx, spec)
		return found && int64(len(ids)) == p.Capacity, errors.Join(err, wrong)
	})
}

// deployment of a pool; nil if there is none.
func (c *ClusterAPI) deployment(ctx context.Context, spec pool.Spec) (*unstructured.Unstructured, error) {
	md := c.object(core, "MachineDeployment", spec.Name)
	err := c.objects.Get(ctx, client.ObjectKeyFromObject(md), md)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return md, err
}

// Pool implements Region.
func (c *ClusterAPI) Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error) {
	md, err := c.deployment(ctx, spec)
	if err != nil || md == nil {
		return control.Pool{}, false, err
	}
	p := control.Pool{Spec: spec, Group: spec.Name, ID: "cluster.x-k8s.io/" + c.cluster.Namespace + "/machinedeployments/" + spec.Name, Extensions: []string{}}
	p.Capacity, _, _ = unstructured.NestedInt64(md.Object, "spec", "replicas")
	name, _, _ := unstructured.NestedString(md.Object, "spec", "template", "spec", "infrastructureRef", "name")
	template := c.object(infrastructure, "AWSMachineTemplate", name)
	if err := c.objects.Get(ctx, client.ObjectKeyFromObject(template), template); err != nil {
		return p, true, err
	}
	p.Image, _, _ = unstructured.NestedString(template.Object, "spec", "template", "spec", "ami", "id")
	return p, true, nil
}

// machines of a pool.
func (c *ClusterAPI) machines(ctx context.Context, spec pool.Spec) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(core.WithKind("MachineList"))
	err := c.objects.List(ctx, list, client.InNamespace(c.cluster.Namespace), client.MatchingLabels{"cluster.x-k8s.io/deployment-name": spec.Name})
	return list.Items, err
}

func providerID(m unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	return id
}

// Instances implements Region: those of its Machines, which Cluster API has taken note of.
func (c *ClusterAPI) Instances(ctx context.Context, spec pool.Spec) ([]string, error) {
	return c.instances(ctx, spec, func(unstructured.Unstructured) bool { return true })
}

// Held implements Region: Machines that something keeps from being removed or remediated.
func (c *ClusterAPI) Held(ctx context.Context, spec pool.Spec) ([]string, error) {
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
			ids = append(ids, id[len(id)-len("i-00000000000000000"):])
		}
	}
	return ids, err
}

// Owns implements Region. A Node tells of its instance only, and that of the MachineDeployment that it is of.
func (c *ClusterAPI) Owns(spec pool.Spec) func(*corev1.Node) bool { return c.owns(spec.Name) }

// Resize implements Region, as an autoscaler of Cluster API's does it.
func (c *ClusterAPI) Resize(ctx context.Context, spec pool.Spec, nodes int64) (int64, func(context.Context) error, error) {
	md, err := c.deployment(ctx, spec)
	if err == nil && md == nil {
		err = fmt.Errorf("there is no MachineDeployment %s", spec.Name)
	}
	if err != nil {
		return 0, nil, err
	}
	was, _, _ := unstructured.NestedInt64(md.Object, "spec", "replicas")
	return was, nil, c.replicas(ctx, md, nodes)
}

func (c *ClusterAPI) replicas(ctx context.Context, md *unstructured.Unstructured, nodes int64) error {
	return c.objects.Patch(ctx, md, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, nodes)))
}

// Remove implements Region: the Machine is marked, and the pool told to have one fewer.
func (c *ClusterAPI) Remove(ctx context.Context, m machine.Status) error {
	spec := pool.Spec{Name: m.Pool}
	all, err := c.machines(ctx, spec)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(o unstructured.Unstructured) bool {
		id := providerID(o)
		return len(id) > len(m.ID) && id[len(id)-len(m.ID):] == m.ID
	})
	if at < 0 {
		return fmt.Errorf("instance %s has no Machine in pool %s", m.ID, m.Pool)
	}
	mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"yes"}}}`))
	if err := c.objects.Patch(ctx, &all[at], mark); err != nil {
		return err
	}
	md, err := c.deployment(ctx, spec)
	if err != nil || md == nil {
		return errors.Join(err, fmt.Errorf("there is no MachineDeployment %s", spec.Name))
	}
	size, _, _ := unstructured.NestedInt64(md.Object, "spec", "replicas")
	if err := c.replicas(ctx, md, size-1); err != nil {
		return err
	}
	return c.await(ctx, func() (bool, error) {
		err := c.objects.Get(ctx, client.ObjectKeyFromObject(&all[at]), &all[at])
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// Versions implements Region. A line is called after Cluster and pool.
func (c *ClusterAPI) Versions(ctx context.Context, spec pool.Spec) ([]Version, error) {
	return c.versions(ctx, c.cluster.Name+"."+spec.Name)
}
