package clusterapi

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// template of the AWSMachinePool's instances.
func (g *ground) template() map[string]any {
	g.Helper()
	o, err := g.of("awsmachinepools").Get(g.Context(), g.pool, metav1.GetOptions{})
	g.must(err)
	template, _, err := unstructured.NestedMap(o.Object, "spec", "awsLaunchTemplate")
	g.must(err)
	return template
}

// refreshes has the AWSMachinePool's provider replace all instances at each new image, or leave them alone.
func (g *ground) refreshes(on bool) {
	g.Helper()
	_, err := g.of("awsmachinepools").Patch(g.Context(), g.pool, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"refreshPreferences":{"disable":%t}}}`, !on), metav1.PatchOptions{})
	g.must(err)
}

// managed tells who has the pool's replicas.
func (g *ground) managed(by string) {
	g.Helper()
	g.merge(fmt.Sprintf(`{"metadata":{"annotations":{"cluster.x-k8s.io/replicas-managed-by":%q}}}`, by))
}

// TestGroup is a whole capture of a pool that is a MachinePool on AWS: an Auto Scaling group, whose size the cluster autoscaler has. A donor
// is aside in its group while it is captured, goes with its place, and its Machine after it.
func TestGroup(t *testing.T) {
	on(t, pool.AWS)
	g := eachGround(t, "grouped", kindMachinePool)
	was := g.template()
	g.must(sandbox.Patch(t.Context(), g.nodes[0].Node, control.Patch{Reboot: true}, func(control.Event) {}))
	g.known("")

	g.refreshes(true)
	g.capture(exitRefused, []string{"MachinePoolRolls", "set its spec.refreshPreferences.disable to true"})
	g.refreshes(false)
	g.managed("false")
	g.capture(exitRefused, []string{"ReplicasWritten", "cluster.x-k8s.io/replicas-managed-by"})
	g.managed("cluster-autoscaler")
	if p := g.prototype(); p != nil {
		t.Fatalf("there is a Prototype: %+v", p.Status)
	}

	order := g.tried()
	recipe := []string{"PATCH /apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/clusters/awsmachinepools/" + g.pool + " ", "ami"}
	g.dies(death{texts: recipe}, order...)
	if diff := cmp.Diff(was, g.template()); diff != "" {
		t.Errorf("the pool is built from another image already:\n%s", diff)
	}
	g.dies(death{texts: recipe, after: true}, order...)
	g.thereAndBack(order, func() {}, func() {
		if diff := cmp.Diff(was, g.template()); diff != "" {
			t.Errorf("given back, the AWSMachinePool's launch template is otherwise (-before +after):\n%s", diff)
		}
	})
}

// TestNoCommandOutlivesAWriteToAGroup: the same as of a MachineDeployment, of whose writes some go to the group.
func TestNoCommandOutlivesAWriteToAGroup(t *testing.T) {
	on(t, pool.AWS)
	eachGround(t, "groupkilled", kindMachinePool).diesAtEachWrite()
}
