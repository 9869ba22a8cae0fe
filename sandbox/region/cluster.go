package region

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	_ "embed"
)

// Groups of the objects of Cluster API's own.
var (
	core         = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	bootstrap    = schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"}
	controlPlane = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"}
)

func (c *ClusterAPI) object(gv schema.GroupVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gv.WithKind(kind))
	o.SetNamespace(c.cluster.Namespace)
	o.SetName(name)
	return o
}

// ref is the reference to an object.
func ref(o *unstructured.Unstructured) map[string]any {
	return map[string]any{"apiGroup": o.GroupVersionKind().Group, "kind": o.GetKind(), "name": o.GetName()}
}

// make creates objects in order. Existing objects stay unchanged.
func (c *ClusterAPI) make(ctx context.Context, all ...*unstructured.Unstructured) error {
	for _, o := range all {
		o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": c.cluster.Name})
		if err := c.objects.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("make %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// MakeCluster creates a missing Cluster, whose API server listens on a port of this machine, and returns the externally managed
// control plane. The topology controller creates the control plane of a ClusterClass.
func (c *ClusterAPI) MakeCluster(ctx context.Context, port int, ofClass bool) (plane *unstructured.Unstructured, err error) {
	cluster := c.object(core, "Cluster", c.cluster.Name)
	err = c.objects.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
	if apierrors.IsNotFound(err) {
		made := c.makePlain
		if ofClass {
			made = c.makeOfClass
		}
		err = made(ctx, cluster, map[string]any{"host": "127.0.0.1", "port": int64(port)})
	}
	if err != nil {
		return nil, err
	}
	err = await(ctx, func() (bool, error) {
		err := c.objects.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		name, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneRef", "name")
		plane = c.object(controlPlane, "ExternalControlPlane", name)
		return name != "", err
	})
	if err != nil || !c.withProvider {
		return plane, err
	}
	return plane, c.provideNetwork(ctx)
}

// makePlain creates a Cluster without a ClusterClass.
func (c *ClusterAPI) makePlain(ctx context.Context, cluster *unstructured.Unstructured, endpoint map[string]any) error {
	infra, plane := c.object(c.capiGroup(), c.capiKind()+"Cluster", c.cluster.Name), c.object(controlPlane, "ExternalControlPlane", c.cluster.Name)
	infra.Object["spec"] = c.at(endpoint)
	if c.withProvider {
		infra.SetAnnotations(managedElsewhere)
	}
	cluster.Object["spec"] = map[string]any{"controlPlaneEndpoint": endpoint, "infrastructureRef": ref(infra), "controlPlaneRef": ref(plane)}
	return c.make(ctx, infra, plane, cluster)
}

// at is the spec of the infrastructure cluster, with the API server's endpoint.
func (c *ClusterAPI) at(endpoint map[string]any) map[string]any {
	spec := c.capiCluster()
	spec["controlPlaneEndpoint"] = endpoint
	return spec
}

// classObjects are what a ClusterClass is of here: the image of its machines is a variable's value, and a pool is called as its entry in
// the Cluster's topology.
//
//go:embed class.yaml
var classObjects string

// className is the name of the ClusterClass, and of all its templates.
const className = "sandbox"

// makeOfClass creates a ClusterClass, and a Cluster with the class.
func (c *ClusterAPI) makeOfClass(ctx context.Context, cluster *unstructured.Unstructured, endpoint map[string]any) error {
	infra, machine := c.object(c.capiGroup(), c.capiKind()+"ClusterTemplate", className), c.template(className)
	infra.Object["spec"] = map[string]any{"template": map[string]any{"spec": c.at(endpoint)}}
	machine.Object["spec"] = map[string]any{"template": map[string]any{"spec": c.capiMachine()}}
	parts := []*unstructured.Unstructured{infra, machine, c.joins("KubeadmConfigTemplate", className)}
	path, schema, generic := c.capiVariable()
	said := strings.NewReplacer("INFRASTRUCTURE", c.capiGroup().String(), "CLOUD", c.capiKind(), "PATH", path, "SCHEMA", schema).Replace(classObjects)
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(said), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("class: %w", err)
		}
		o.SetNamespace(c.cluster.Namespace)
		parts = append(parts, o)
	}
	if err := c.make(ctx, parts...); err != nil {
		return err
	}
	class := parts[len(parts)-1]
	err := await(ctx, func() (bool, error) {
		err := c.objects.Get(ctx, client.ObjectKeyFromObject(class), class)
		seen, _, _ := unstructured.NestedInt64(class.Object, "status", "observedGeneration")
		return seen > 0, err
	})
	if err != nil {
		return err
	}
	cluster.Object["spec"] = map[string]any{"topology": map[string]any{
		"classRef": map[string]any{"name": className}, "version": c.version, "variables": []any{map[string]any{"name": "image", "value": generic}},
	}}
	return c.make(ctx, cluster)
}
