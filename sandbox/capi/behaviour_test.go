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
	"github.com/kamino-dev/kamino/internal/testing/memory"
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
	r := p.recipes()
	p.promote(r, "2026.03.14")
	if err := r.SetCapacity(t.Context(), p.id(), 3, 5); err != nil {
		t.Fatal(err)
	}
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

// TestMachineRemovedByScaleIn: scale-in deletes a Machine of the oldest MachineSet, even if a different Machine has
// the delete mark. A removal by Kamino reduces the replicas itself, so that only its Machine is deleted.
func TestMachineRemovedByScaleIn(t *testing.T) {
	t.Parallel()
	p, before, after := grown(t)
	marked := p.machinesOf(after)[0]
	p.merge("Machine", marked.GetName(), `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"yes"}}}`)
	p.merge("MachineDeployment", p.name, `{"spec":{"replicas":4}}`)
	p.waitSize(4)
	old := namesOf(p.machinesOf(before))
	if fresh := namesOf(p.machinesOf(after)); len(old) != 2 || len(fresh) != 2 || !slices.Contains(fresh, marked.GetName()) {
		t.Errorf("of the old set %v are left and of the new one %v, want two of each, %s among them", old, fresh, marked.GetName())
	}
	p.remove(p.recipes(), instanceOf(marked))
	p.waitSize(3)
	if fresh := namesOf(p.machinesOf(after)); !slices.Equal(namesOf(p.machinesOf(before)), old) || len(fresh) != 1 || fresh[0] == marked.GetName() {
		t.Errorf("of the old set %v are left and of the new one %v, want %v and the other one", namesOf(p.machinesOf(before)), fresh, old)
	}
}

// TestMachineWithoutNode: a pool grows by a machine that never registers, so Cluster API does not drain its Machine, and ignores
// hooks before the drain. Kamino removes only that Machine, although scale-in would choose the oldest MachineSet.
func TestMachineWithoutNode(t *testing.T) {
	t.Parallel()
	p, _, _ := grown(t)
	names, before := namesOf(p.list("Machine")), p.instances()
	p.fleet.silent.Store(p.namespace, true)
	if err := p.recipes().SetCapacity(t.Context(), p.id(), 5, 6); err != nil {
		t.Fatal(err)
	}
	added, waits := p.waitAdded(before), false
	p.remove(p.watched(p, func(what string) memory.Outcome {
		if what == "PATCH machinedeployments" && !waits {
			p.wait("Cluster API to act on the deletion", func() bool { waits = p.awaitsHook(added); return waits })
		}
		return memory.Pass()
	}), added)
	p.waitSize(5)
	if now := namesOf(p.list("Machine")); !slices.Equal(now, names) {
		t.Errorf("the pool has %v, want %v", now, names)
	}
	for _, o := range append(p.list("Machine"), *p.get("MachineDeployment", p.name)) {
		for _, key := range marksOfRemoval {
			if annotated(o, key) {
				t.Errorf("%s %s still has %s", o.GetKind(), o.GetName(), key)
			}
		}
	}
}

// awaitsHook reports whether Cluster API waits for the hook of an instance's deleted Machine, and fails if the Machine is gone.
func (p *pool) awaitsHook(id cloud.InstanceID) bool {
	p.t.Helper()
	for _, m := range p.list("Machine") {
		if instanceOf(m) != id {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(m.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["reason"] == "WaitingForPreTerminateHook" })
	}
	p.t.Fatalf("the Machine of instance %s was deleted before the replicas were reduced", id)
	return false
}

// waitAdded waits for an instance that the pool did not have before, and returns the instance. Its Machine has no Node.
func (p *pool) waitAdded(before []cloud.InstanceID) (id cloud.InstanceID) {
	p.t.Helper()
	p.wait("a new instance without a Node", func() bool {
		for _, m := range p.list("Machine") {
			if of := instanceOf(m); of != "" && !slices.Contains(before, of) {
				id = of
				return nodeNameOf(m) == ""
			}
		}
		return false
	})
	return id
}

// marksOfRemoval are the annotations of a removal that no object keeps.
var marksOfRemoval = []string{hook, "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kamino", "kamino.dev/removing", "kamino.dev/place-of",
	"cluster.x-k8s.io/paused"}

// remove has an instance removed.
func (p *pool) remove(r *capi.PoolProvider, id cloud.InstanceID) {
	p.t.Helper()
	p.wait("end of "+string(id), func() bool {
		state, err := r.EnsureRemoved(context.Background(), id)
		if err != nil && !cloud.Is(err, cloud.Conflict) {
			p.t.Fatal(err)
		}
		return err == nil && state == cloud.Absent
	})
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
	p.merge("MachineDeployment", p.name, `{"spec":{"replicas":4}}`) // by a client that ignores the pause
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
	for what, err := range map[string]error{"growth": r.SetCapacity(t.Context(), p.id(), 4, 5), "promotion": r.SetRecipe(t.Context(), change)} {
		if ours := (*cloud.Error)(nil); !errors.As(err, &ours) || ours.Kind != cloud.Unavailable || ours.Code != paused {
			t.Errorf("%s: %v", what, err)
		}
	}
	gone := p.list("Machine")[0]
	if _, err := r.EnsureRemoved(t.Context(), instanceOf(gone)); !cloud.Is(err, cloud.Unavailable) || len(p.list("Machine")) != 3 {
		t.Errorf("its removal: %v: there are %v", err, namesOf(p.list("Machine")))
	}
	p.merge("Cluster", "home", `{"spec":{"paused":false}}`)
	p.waitSize(4)
	p.remove(r, instanceOf(gone))
	p.waitSize(3)
	if names := namesOf(p.list("Machine")); slices.Contains(names, gone.GetName()) {
		t.Errorf("%s is among %v", gone.GetName(), names)
	}
	p.promote(r, "2026.03.14")
}

// TestAutoscalerDuringRemoval: an autoscaler writes between any two writes of a removal. Its change stays, the
// removal takes one place, and the removed Machine is gone. The autoscaler grows and shrinks the pool in turns.
func TestAutoscalerDuringRemoval(t *testing.T) {
	t.Parallel()
	for gap := range 6 {
		by := []int64{1, -1}[gap%2]
		t.Run(fmt.Sprintf("%+d behind write %d", by, gap+1), func(t *testing.T) {
			t.Parallel()
			p := newPool(t, deployment)
			writes := 0
			r := p.watched(p, func(string) memory.Outcome {
				if writes++; writes == gap+1 {
					p.scale(by)
				}
				return memory.Pass()
			})
			gone := p.list("Machine")[0]
			p.remove(r, instanceOf(gone))
			if writes != 6 {
				t.Errorf("it took %d writes, want 6", writes)
			}
			p.waitSize(int(2 + by))
			if names := namesOf(p.list("Machine")); slices.Contains(names, gone.GetName()) {
				t.Errorf("%s is among %v", gone.GetName(), names)
			}
			for _, o := range append(p.list("Machine"), *p.get("MachineDeployment", p.name)) {
				for _, key := range marksOfRemoval {
					if annotated(o, key) {
						t.Errorf("%s %s still has %s", o.GetKind(), o.GetName(), key)
					}
				}
			}
		})
	}
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
