package clusterapi

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/sandbox/machine"
)

// entry is the pool's in the topology of the Cluster.
func (e *env) entry() map[string]any {
	e.Helper()
	cluster, err := sandbox.Objects("clusters").Get(e.Context(), "sandbox", metav1.GetOptions{})
	e.Must(err)
	all, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "topology", "workers", "machineDeployments")
	at := slices.IndexFunc(all, func(entry any) bool { return entry.(map[string]any)["name"] == e.Pool })
	if at < 0 {
		e.Fatalf("the topology has no %s: %v", e.Pool, all)
	}
	return all[at].(map[string]any)
}

// overrides of the pool's entry, by the names of the variables.
func (e *env) overrides() map[string]any {
	e.Helper()
	all, _, _ := unstructured.NestedSlice(e.entry(), "variables", "overrides")
	overrides := map[string]any{}
	for _, o := range all {
		overrides[o.(map[string]any)["name"].(string)] = o.(map[string]any)["value"]
	}
	return overrides
}

// nameOfImage returns the last word of an image in a variable: on AWS the image, on Azure the version of an object.
func nameOfImage(value any) string {
	object, isObject := value.(map[string]any)
	if !isObject {
		return fmt.Sprint(value)
	}
	version, _, _ := unstructured.NestedString(object, "computeGallery", "version")
	return version
}

// TestClusterClass captures a node of a pool from a ClusterClass. The pool's image is an override in the Cluster,
// which a restoration of the recipe removes.
func TestClusterClass(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "classy", kindClusterClass, "max=0")
	before := e.entry()
	e.patchDonor()
	e.assertKnown("MachineDeployment clusters/classy")
	e.captureTwiceAndRestore(func(machine.Status) {
		if all, image := e.overrides(), e.CloudPool().Image; len(all) != 1 || nameOfImage(all["image"]) != path.Base(image) {
			t.Errorf("the pool is built from %s, and the overrides of its entry are %v", image, all)
		}
	}, func() {
		if diff := cmp.Diff(before, e.entry()); diff != "" {
			t.Errorf("the restored entry is another (-before +after):\n%s", diff)
		}
	})
}
