package clusterapi

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// entry is the pool's in the Cluster's topology.
func (g *ground) entry() (at int, entry map[string]any) {
	g.Helper()
	cluster, err := g.of("clusters").Get(g.Context(), "sandbox", metav1.GetOptions{})
	g.must(err)
	all, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "topology", "workers", "machineDeployments")
	at = slices.IndexFunc(all, func(e any) bool { return e.(map[string]any)["name"] == g.pool })
	if at < 0 {
		g.Fatalf("the topology has no %s: %v", g.pool, all)
	}
	return at, all[at].(map[string]any)
}

// ask changes a field of the pool's entry; nil takes it away.
func (g *ground) ask(field string, value any) {
	g.Helper()
	at, _ := g.entry()
	change := map[string]any{"op": "add", "path": fmt.Sprintf("/spec/topology/workers/machineDeployments/%d/%s", at, field), "value": value}
	if value == nil {
		change["op"] = "remove"
	}
	raw, err := json.Marshal([]any{change})
	g.must(err)
	_, err = g.of("clusters").Patch(g.Context(), "sandbox", types.JSONPatchType, raw, metav1.PatchOptions{})
	g.must(err)
}

// strategy is what the entry says of roll-outs.
func strategy(kind string) map[string]any {
	return map[string]any{"strategy": map[string]any{"type": kind}}
}

// overrides of the pool's entry, by the names of the variables.
func (g *ground) overrides() map[string]any {
	g.Helper()
	_, entry := g.entry()
	all, _, _ := unstructured.NestedSlice(entry, "variables", "overrides")
	by := map[string]any{}
	for _, o := range all {
		by[o.(map[string]any)["name"].(string)] = o.(map[string]any)["value"]
	}
	return by
}

// named is the last word of an image that a variable has: the image itself on AWS, and of an object on Azure the version.
func named(value any) string {
	of, is := value.(map[string]any)
	if !is {
		return fmt.Sprint(value)
	}
	version, _, _ := unstructured.NestedString(of, "computeGallery", "version")
	return version
}

// TestClusterClass is a whole capture of a pool that the topology controller makes from a ClusterClass: its image is an override in the
// Cluster, written by whoever comes after one that was killed, and it is given back.
func TestClusterClass(t *testing.T) {
	g := eachGround(t, "classy", kindClassy, "max=0")
	donor := g.nodes[0]
	_, was := g.entry()
	g.must(sandbox.Patch(t.Context(), donor.Node, control.Patch{Reboot: true}, func(control.Event) {}))
	g.known("MachineDeployment clusters/classy")
	class := func(patch string) {
		_, err := g.of("clusterclasses").Patch(t.Context(), "sandbox", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		g.must(err)
	}

	order := g.tried()
	g.ask("rollout", strategy("RollingUpdate"))
	g.runs(exitRefused, []string{"RollingUpdate: the topology of MachineDeployment clusters/classy asks for the strategy RollingUpdate"}, order...)
	g.ask("rollout", strategy("OnDelete"))
	g.waits("the pool is OnDelete", func() bool { return sandboxtest.Text(*g.sized(), "spec", "rollout", "strategy", "type") == "OnDelete" })
	g.ask("replicas", 2)
	g.capture(exitRefused, []string{"TopologyReplicas"})
	g.ask("replicas", nil)
	class(`[{"op":"add","path":"/spec/patches/0/enabledIf","value":"true"}]`)
	g.capture(exitRefused, []string{"TopologyOwned"})
	class(`[{"op":"remove","path":"/spec/patches/0/enabledIf"}]`)
	if p := g.prototype(); p != nil {
		t.Fatalf("there is a Prototype: %+v", p.Status)
	}

	recipe := []string{"PATCH /apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/clusters/sandbox ", "overrides"}
	g.dies(death{texts: []string{"PATCH ", "/machinesets/"}, after: true}, order...)
	g.dies(death{texts: recipe}, order...)
	if now := g.look(); now.Image != g.before.Image || len(g.overrides()) > 0 {
		t.Errorf("the pool is built from %s already, and its entry has %v", now.Image, g.overrides())
	}
	g.dies(death{texts: recipe, after: true}, order...)
	g.thereAndBack(order, func() {
		if all, image := g.overrides(), g.look().Image; len(all) != 1 || named(all["image"]) != path.Base(image) {
			t.Errorf("the pool is built from %s, and the overrides of its entry are %v", image, all)
		}
	}, func() {
		if _, now := g.entry(); !cmp.Equal(was, now) {
			t.Errorf("given back, the entry is another (-before +after):\n%s", cmp.Diff(was, now))
		}
	})
}
