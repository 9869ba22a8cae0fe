package clusterapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// factory is the AzureMachinePool.
func (g *ground) factory() *unstructured.Unstructured {
	g.Helper()
	o, err := g.of("azuremachinepools").Get(g.Context(), g.pool, metav1.GetOptions{})
	g.must(err)
	return o
}

// image that the AzureMachinePool names, as it is written there.
func (g *ground) image() any {
	g.Helper()
	image, _, err := unstructured.NestedFieldCopy(g.factory().Object, "spec", "template", "image")
	g.must(err)
	return image
}

// surge has the AzureMachinePool's provider add instances of each new model.
func (g *ground) surge(n int) {
	g.Helper()
	_, err := g.of("azuremachinepools").Patch(g.Context(), g.pool, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":%d}}}}`, n), metav1.PatchOptions{})
	g.must(err)
}

// gate starts the provider with the feature gate by which it leaves instances of earlier models alone, or without, as its Deployment says.
func (g *ground) gate(on bool) {
	g.Helper()
	of := sandbox.Kube().AppsV1().Deployments(capi.GateDeployment.Namespace)
	change, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": capi.GateArguments(on)}})
	g.must(err)
	d, err := of.Patch(g.Context(), capi.GateDeployment.Name, types.JSONPatchType, change, metav1.PatchOptions{})
	g.must(err)
	g.waits("the provider is started anew", func() bool {
		now, err := of.Get(g.Context(), d.Name, metav1.GetOptions{})
		g.must(err)
		return now.Status.ObservedGeneration >= d.Generation && now.Status.Replicas == 1 && now.Status.UpdatedReplicas == 1
	})
}

// TestMachinePool is a whole capture of a pool that is a MachinePool: a scale set, whose provider rolls nothing out. A donor that joins by
// kubeadm does not return; its instance goes with its Machine, and the MachinePool has a place fewer.
func TestMachinePool(t *testing.T) {
	on(t, pool.Azure)
	g := eachGround(t, "pooled", kindMachinePool)
	donor, was := g.nodes[0], g.image()
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), donor.Node, metav1.GetOptions{})
	g.must(err)
	if set := "/virtualMachineScaleSets/" + g.pool + "/virtualMachines/"; node.Spec.ProviderID != "azure://"+donor.ID || !strings.Contains(donor.ID, set) {
		t.Fatalf("node %s is %s, and no instance of a scale set %s", node.Name, node.Spec.ProviderID, g.pool)
	}
	g.must(sandbox.Patch(t.Context(), donor.Node, control.Patch{Reboot: true}, func(control.Event) {}))
	g.known("")

	g.surge(1)
	g.capture(exitRefused, []string{"MachinePoolRolls", "has a maxSurge of 1"})
	g.surge(0)
	g.gate(false)
	g.capture(exitRefused, []string{"MachinePoolRolls", "for its feature gate SkipMachinePoolModelReconciliation is off"})
	g.gate(true)
	if p := g.prototype(); p != nil {
		t.Fatalf("there is a Prototype: %+v", p.Status)
	}

	order := g.tried()
	recipe := []string{"PATCH /apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/clusters/azuremachinepools/" + g.pool + " ", "computeGallery"}
	g.dies(death{texts: []string{"PATCH ", "/machinepools/" + g.pool, "kamino.dev/place-of"}, after: true}, order...)
	g.dies(death{texts: recipe}, order...)
	if diff := cmp.Diff(was, g.image()); diff != "" {
		t.Errorf("the pool is built from another image already:\n%s", diff)
	}
	g.dies(death{texts: recipe, after: true}, order...)
	g.thereAndBack(order, func() {}, func() {
		if diff := cmp.Diff(was, g.image()); diff != "" {
			t.Errorf("given back, the AzureMachinePool names its image otherwise (-before +after):\n%s", diff)
		}
	})
	g.grows() // of six nodes on, a scale set may be close to the number of images that it may have
	doctor := sandbox.Run(t, g.env, "kamino", "doctor", g.pool)
	if says := "the pool's nodes and its recipe name 2 images of at most 10"; !strings.Contains(doctor.Stdout, says) {
		t.Errorf("the doctor does not say %q:\n%s%s", says, doctor.Stdout, doctor.Stderr)
	}
}
