package capi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
)

// The tests in this file describe behaviour of Cluster API's controllers that the recipes need. A release with
// different behaviour fails here.

// promote points the pool at the version.
func (p *pool) promote(r *capi.PoolProvider, version string) {
	p.t.Helper()
	p.publish(version)
	change, err := r.RecipeChange(p.t.Context(), cloud.Target{Pool: p.id(), Version: version, Image: p.imageID(version)}, false)
	if err == nil {
		err = r.SetRecipe(p.t.Context(), change)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// sets are the pool's MachineSets, the oldest first.
func (p *pool) sets() []unstructured.Unstructured {
	p.t.Helper()
	all := p.list("MachineSet")
	slices.SortFunc(all, func(a, b unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	return all
}

// machinesOf are the Machines of a MachineSet.
func (p *pool) machinesOf(set unstructured.Unstructured) []unstructured.Unstructured {
	p.t.Helper()
	return slices.DeleteFunc(p.list("Machine"), func(m unstructured.Unstructured) bool {
		owner := metav1.GetControllerOf(&m)
		return owner == nil || owner.UID != set.GetUID()
	})
}

// waitSize waits until the pool wants this number of machines, and exactly these machines with Nodes exist.
func (p *pool) waitSize(size int) {
	p.t.Helper()
	p.wait(fmt.Sprintf("%d machines", size), func() bool {
		return len(p.instances()) == size && len(p.list("Machine")) == size && replicas(*p.get("MachineDeployment", p.name)) == int64(size)
	})
}

// namesOf returns the names of the Machines.
func namesOf(machines []unstructured.Unstructured) (names []string) {
	for _, m := range machines {
		names = append(names, m.GetName())
	}
	return slices.Sorted(slices.Values(names))
}

// grown returns a pool of three machines that was promoted to a version and has grown by two.
func grown(t *testing.T) (p *pool, before, after unstructured.Unstructured) {
	t.Helper()
	p = newPool(t, deployment)
	p.promote(p.recipes(), "2026.03.14")
	p.scale(2)
	p.waitSize(5)
	sets := p.sets()
	if len(sets) != 2 {
		t.Fatalf("there are the sets %v", namesOf(sets))
	}
	if name, _, _ := unstructured.NestedString(sets[0].Object, "spec", "template", "spec", "infrastructureRef", "name"); name != "workers-1" {
		sets[0], sets[1] = sets[1], sets[0] // created in one second
	}
	return p, sets[0], sets[1]
}

// TestMachineSetThatGrows: after a promotion the new MachineSet grows, and the previous MachineSet creates no
// machine.
func TestMachineSetThatGrows(t *testing.T) {
	t.Parallel()
	p, before, after := grown(t)
	if old, fresh := len(p.machinesOf(before)), len(p.machinesOf(after)); old != 3 || fresh != 2 {
		t.Errorf("the old set has %d machines and the new one %d, want 3 and 2", old, fresh)
	}
	const disabled = "cluster.x-k8s.io/disable-machine-create"
	if old, fresh := before.GetAnnotations()[disabled], after.GetAnnotations()[disabled]; old != "true" || fresh == "true" {
		t.Errorf("%s is %q of the old set, and %q of the new one", disabled, old, fresh)
	}
	for _, m := range p.machinesOf(after) {
		if have, _ := p.fleet.find(instanceOf(m)); have.image != "ami-2026.03.14" {
			t.Errorf("%s is built from %q", m.GetName(), have.image)
		}
	}
}

// TestMachineRemovedByScaleIn: scale-in deletes a Machine of the oldest MachineSet, even if a different Machine has the delete mark.
func TestMachineRemovedByScaleIn(t *testing.T) {
	t.Parallel()
	p, before, after := grown(t)
	marked := p.machinesOf(after)[0]
	p.merge("Machine", marked.GetName(), `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"yes"}}}`)
	p.scale(-1)
	p.waitSize(4)
	old := namesOf(p.machinesOf(before))
	if fresh := namesOf(p.machinesOf(after)); len(old) != 2 || len(fresh) != 2 || !slices.Contains(fresh, marked.GetName()) {
		t.Errorf("of the old set %v are left and of the new one %v, want two of each, %s among them", old, fresh, marked.GetName())
	}
}

// TestPausedCluster: Cluster API acts on no write before the end of the pause, so every writer must wait.
func TestPausedCluster(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	r := p.recipes()
	p.publish("2026.03.14")
	change, err := r.RecipeChange(t.Context(), cloud.Target{Pool: p.id(), Version: "2026.03.14", Image: p.imageID("2026.03.14")}, false)
	if err != nil {
		t.Fatal(err)
	}
	p.merge("Cluster", "home", `{"spec":{"paused":true}}`)
	p.scale(1) // by a client that ignores the pause
	p.wait("sight of the pause", func() bool {
		above := p.get("MachineDeployment", p.name)
		conditions, _, _ := unstructured.NestedSlice(above.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			messages := c.(map[string]any)
			return messages["type"] == "Paused" && messages["status"] == "True" && messages["observedGeneration"] == above.GetGeneration()
		})
	})
	if sets := p.sets(); len(sets) != 1 || replicas(sets[0]) != 3 || len(p.list("Machine")) != 3 {
		t.Errorf("it was carried out: %v, %v", sets, namesOf(p.list("Machine")))
	}
	const paused = "ClusterAPIPaused"
	found, err := r.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: p.id(), Instance: p.instances()[0], Version: "2026.03.14"})
	if at := slices.IndexFunc(found, func(f cloud.Refusal) bool { return f.Reason == paused }); err != nil || at < 0 ||
		!strings.HasPrefix(found[at].What(), "Cluster "+p.namespace+"/home is paused") {
		t.Errorf("the preflight says %+v, %v", found, err)
	}
	err = r.SetRecipe(t.Context(), change)
	if ours := (*cloud.Error)(nil); !errors.As(err, &ours) || ours.Kind != cloud.Unavailable || ours.Code != paused {
		t.Errorf("the promotion: %v", err)
	}
	p.merge("Cluster", "home", `{"spec":{"paused":false}}`)
	p.waitSize(4)
	p.promote(r, "2026.03.14")
}

// scale is an autoscaler that changes the size of the pool.
func (p *pool) scale(by int64) {
	p.t.Helper()
	p.merge("MachineDeployment", p.name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas(*p.get("MachineDeployment", p.name))+by))
}

// switched is a maker whose machines are in one state.
type switched struct {
	sandbox.Maker
	state atomic.Value
}

// Ensure implements sandbox.Maker.
func (m *switched) Ensure(ctx context.Context, of sandbox.Machine) (string, sandbox.MachineState, error) {
	id, _, err := m.Maker.Ensure(ctx, of)
	return id, m.state.Load().(sandbox.MachineState), err
}

// TestStatesOfMachines: on AWS, the Machine of a stopped instance is not Ready until the instance runs again. The failure of a
// terminated instance is final.
func TestStatesOfMachines(t *testing.T) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	machines := &switched{Maker: p.makers.Maker}
	p.makers.set(p.namespace, machines)
	built := func() map[string]any {
		status, _, _ := unstructured.NestedMap(p.list("AWSMachine")[0].Object, "status")
		return status
	}
	until := func(state sandbox.MachineState, ready metav1.ConditionStatus) {
		t.Helper()
		machines.state.Store(state)
		p.wait("Machines that are "+string(state), func() bool {
			all := p.list("Machine")
			return built()["instanceState"] == string(state) && !slices.ContainsFunc(all, func(m unstructured.Unstructured) bool {
				conditions, _, _ := unstructured.NestedSlice(m.Object, "status", "conditions")
				return !slices.ContainsFunc(conditions, func(c any) bool {
					is, _ := c.(map[string]any)
					return is["type"] == "InfrastructureReady" && is["status"] == string(ready)
				})
			})
		})
	}
	until(sandbox.Running, metav1.ConditionTrue)
	until(sandbox.Stopped, metav1.ConditionFalse)
	until(sandbox.Running, metav1.ConditionTrue)
	until(sandbox.Terminated, metav1.ConditionFalse)
	if status := built(); status["failureReason"] != "UpdateError" {
		t.Errorf("the status is %v", status)
	}
}
