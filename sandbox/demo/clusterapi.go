package demo

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Steps of the demo with a pool that Cluster API builds.

// templateIsCopied compares the current template of the pool with the first template, whose name is the pool's name.
func (s *scenario) templateIsCopied(ctx context.Context) error {
	c, err := dynamic.NewForConfig(s.world.Config())
	if err != nil {
		return err
	}
	pools, err := s.world.Pools(ctx)
	if err != nil {
		return err
	}
	get := func(group, resource, name string) (*unstructured.Unstructured, error) {
		gvr := schema.GroupVersionResource{Group: group, Version: "v1beta2", Resource: resource}
		list, err := c.Resource(gvr).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil || len(list.Items) != 1 {
			return nil, fmt.Errorf("want a single object of %s %s: %w", resource, name, err)
		}
		return &list.Items[0], nil
	}
	pool, err := get("cluster.x-k8s.io", "machinedeployments", s.pool)
	if err != nil {
		return err
	}
	machine := func(name string) (map[string]any, string, error) {
		template, err := get("infrastructure.cluster.x-k8s.io", "awsmachinetemplates", name)
		if err != nil {
			return nil, "", err
		}
		spec, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec")
		image, _, _ := unstructured.NestedString(spec, "ami", "id")
		unstructured.RemoveNestedField(spec, "ami")
		return spec, image, err
	}
	named, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "infrastructureRef", "name")
	was, generic, err := machine(s.pool)
	if err != nil {
		return err
	}
	is, image, err := machine(named)
	switch joins, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "bootstrap", "configRef", "name"); {
	case err != nil:
		return err
	case named == s.pool || image == generic || image != pools[0].Image:
		return fmt.Errorf("the MachineDeployment names template %s with image %s", named, image)
	case !reflect.DeepEqual(was, is):
		return fmt.Errorf("template %s has %v, the template of the pool has %v", named, is, was)
	case joins != s.pool:
		return fmt.Errorf("the bootstrap configuration is %s", joins)
	}
	return nil
}
