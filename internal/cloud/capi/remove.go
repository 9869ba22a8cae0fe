package capi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A shrinking MachineDeployment chooses the MachineSet that loses a Machine. So Kamino deletes the Machine with a hook, takes a
// replica from both, and then removes pause and hook. Each write waits until Cluster API has observed the object.

const opRemove = "remove"

// removalReleased is the value of annotationRemoving after the replicas are reduced. Before, the value is the Machine's
// UID at the beginning. After a move the UID differs, but the value still identifies the removal.
const removalReleased = "released"

// removal removes Machines and reduces the replicas.
type removal struct{ *clusterAccess }

// CanRebuild implements cloud.PoolProvider: Cluster API replaces a Machine instead.
func (r *PoolProvider) CanRebuild() bool { return false }

// EnsureRebuilt implements cloud.PoolProvider.
func (r *PoolProvider) EnsureRebuilt(_ context.Context, id cloud.InstanceID, _ string) (cloud.Rebuild, error) {
	return cloud.Rebuild{}, &cloud.Error{Kind: cloud.Unsupported, Op: "rebuild", Resource: string(id),
		Message: "Cluster API rebuilds no Machine in place: delete the Machine"}
}

// EnsureRemoved implements cloud.PoolProvider.
func (r *PoolProvider) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (state cloud.State, err error) {
	err = retryOnConflict(func() error {
		state, err = removal{r.clusterAccess}.ensure(cloud.WithoutReadCache(ctx), id)
		if cloud.Is(err, cloud.NotFound) { // deleted between a read and a write
			state, err = removal{r.clusterAccess}.ensure(cloud.WithoutReadCache(ctx), id)
		}
		return err
	})
	return state, err
}

func (r removal) ensure(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	if err := r.requireNotMoved(ctx, opRemove); err != nil {
		return cloud.Absent, err
	}
	m, err := r.machineOf(ctx, opRemove, id)
	if err != nil {
		return cloud.Absent, r.finish(ctx, err)
	}
	if r.grouped(m) {
		return r.removeFromGroup(ctx, id, m)
	}
	switch begun := m.GetAnnotations()[annotationRemoving]; {
	case begun == removalReleased && m.deleting():
		return cloud.Deleting, nil
	case begun == removalReleased: // and moved since, without the deletion
		return cloud.Deleting, r.kube.remove(ctx, opRemove, m)
	case begun == "" && m.deleting(): // deleted by another client, which handles the replicas; only Kamino's hook must go
		return cloud.Deleting, r.removeHook(ctx, m)
	}
	if m, err = r.begin(ctx, m); err != nil {
		return cloud.Absent, err
	}
	if err := r.reduceReplicasFor(ctx, m); err != nil {
		return cloud.Absent, err
	}
	if m, err = r.machineOf(ctx, opRemove, id); err != nil {
		return cloud.Absent, r.finish(ctx, err)
	}
	return cloud.Deleting, r.removeHook(ctx, m)
}

// begin deletes a Machine with a hook that delays the deletion, and returns the Machine.
func (r removal) begin(ctx context.Context, m object) (object, error) {
	if err := r.refuseReduction(ctx, m); err != nil {
		return m, err
	}
	// Without a Node, for example right after a move, Cluster API ignores annotationHook.
	nodeless := m.text("status", "nodeRef", "name") == ""
	if begun := m.GetAnnotations()[annotationRemoving]; begun == "" || !m.is(annotationHook) || nodeless && !m.is(annotationTerminate) {
		marks, err := r.removalAnnotations(ctx, m, cmp.Or(begun, string(m.GetUID())))
		if err != nil {
			return m, err
		}
		if nodeless {
			marks[annotationTerminate] = ""
		}
		if m, err = r.kube.annotate(ctx, opRemove, m, marks); err != nil {
			return m, err
		}
	}
	if m.deleting() {
		return m, nil
	}
	return m, r.kube.remove(ctx, opRemove, m)
}

// finish handles an unreadable Machine: if the Machine is gone, only cleanup is left.
func (r removal) finish(ctx context.Context, err error) error {
	if cloud.Is(err, cloud.NotFound) {
		return r.endPauses(ctx)
	}
	return err
}

// removeHook removes the hooks from a Machine.
func (r removal) removeHook(ctx context.Context, m object) error {
	_, err := r.kube.annotate(ctx, opRemove, m, map[string]any{annotationRemoving: removalReleased, annotationHook: nil, annotationTerminate: nil})
	return err
}

// refuseReduction refuses a Machine whose topology sets the replicas, because the topology controller would restore the
// replicas.
func (r removal) refuseReduction(ctx context.Context, m object) error {
	owner := m.controller()
	if m.is(annotationRemoving) || m.deleting() || owner == nil || owner.Kind != kindSet || !hasLabel(m, labelTopology) {
		return nil
	}
	set, err := r.kube.get(ctx, core(kindSet), owner.Name)
	if err != nil {
		return err
	}
	by := poolOfSet(set)
	pool, err := r.kube.get(ctx, core(by.kind()), by.name)
	if err != nil {
		return err
	}
	cluster, err := r.kube.get(ctx, core(kindCluster), r.cluster.Name)
	if err != nil {
		return err
	}
	t := &topology{cluster: cluster, entry: entryOf(cluster, pool)}
	for _, refusal := range t.refuseReplicas(by) {
		return refusal.Error(opRemove, m.String())
	}
	return nil
}

// reduceReplicasFor reduces the replicas for a Machine whose deletion waits, in the MachinePool, or in MachineSet and
// MachineDeployment. A missing owner has no replicas.
func (r removal) reduceReplicasFor(ctx context.Context, m object) error {
	owner, name := m.controller(), m.GetAnnotations()[annotationRemoving]
	switch {
	case owner == nil:
		return nil
	case owner.Kind == kindPool:
		return r.reduceMachinePool(ctx, owner.Name, name)
	case owner.Kind != kindSet:
		return nil
	}
	set, err := r.kube.get(ctx, core(kindSet), owner.Name)
	if err = r.confirmMissing(ctx, opRemove, err); cloud.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var above object
	if by := set.controller(); by != nil && by.Kind == kindDeployment {
		above, err = r.kube.get(ctx, core(kindDeployment), by.Name)
		if err = r.confirmMissing(ctx, opRemove, err); err != nil && !cloud.Is(err, cloud.NotFound) {
			return err
		}
	}
	return r.reduceReplicas(ctx, set, above, name)
}

// reduceReplicas reduces the replicas of a MachineSet and its MachineDeployment, unless done.
func (r removal) reduceReplicas(ctx context.Context, set, above object, name string) (err error) {
	if set.GetAnnotations()[annotationPlace] != name {
		if above.Unstructured != nil {
			if above, err = r.reduceDeployment(ctx, above, name); err != nil {
				return err
			}
			if err := r.waitObserved(ctx, above); err != nil {
				return err
			}
		}
		if set, err = r.kube.patch(ctx, opRemove, set, oneReplicaLess(set, map[string]any{annotationPlace: name})); err != nil {
			return err
		}
	}
	if err := r.waitObserved(ctx, set); err != nil {
		return err
	}
	if above.Unstructured == nil || above.GetAnnotations()[annotationPlace] != name {
		return nil
	}
	_, err = r.kube.annotate(ctx, opRemove, above, map[string]any{annotationPlace: nil, annotationPaused: nil})
	return err
}

// waitObserved waits until Cluster API has observed the object.
func (r removal) waitObserved(ctx context.Context, o object) error {
	for last := time.Now().Add(waitTimeout); !o.isObserved(); {
		if time.Now().After(last) {
			return &cloud.Error{Kind: cloud.Unavailable, Op: opRemove, Resource: o.String(), Code: reasonPending,
				Message: "Cluster API has not observed the new size, by the condition " + conditionPaused + ": check that Cluster API's controllers run"}
		}
		err := pause(ctx, opRemove, o, pollInterval)
		if err == nil {
			o, err = r.kube.get(cloud.WithoutReadCache(ctx), core(o.GetKind()), o.GetName())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endPauses ends the pause of MachineDeployments whose removed Machine is gone early, because the hook was removed or skipped.
// If the MachineSet kept its replicas, the replicas are restored, so that no further Machine is removed.
func (r removal) endPauses(ctx context.Context) error {
	pools, err := r.kube.list(ctx, core(kindDeployment), r.ofCluster())
	if err != nil {
		return err
	}
	pools = slices.DeleteFunc(pools, func(o object) bool { return !o.is(annotationPlace) })
	if len(pools) == 0 {
		return nil
	}
	machines, sets, err := r.all(ctx)
	if err != nil {
		return err
	}
	for _, pool := range pools {
		removal := pool.GetAnnotations()[annotationPlace]
		if slices.ContainsFunc(machines, func(m object) bool { return m.GetAnnotations()[annotationRemoving] == removal }) {
			continue
		}
		change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationPlace: nil, annotationPaused: nil}}}
		if reported := slices.IndexFunc(sets, func(s object) bool { return s.GetAnnotations()[annotationPlace] == removal }); reported < 0 {
			change["spec"] = map[string]any{"replicas": pool.replicas() + 1}
		} else if err := r.waitObserved(ctx, sets[reported]); err != nil {
			return err
		}
		if _, err := r.kube.patch(ctx, opRemove, pool, change); err != nil {
			return err
		}
	}
	return nil
}

// reduceDeployment pauses a MachineDeployment and reduces the replicas, unless done.
func (r removal) reduceDeployment(ctx context.Context, above object, uid string) (object, error) {
	switch by := above.GetAnnotations()[annotationPlace]; {
	case by == uid:
		return above, nil
	case by != "":
		return above, &cloud.Error{Kind: cloud.Conflict, Op: opRemove, Resource: above.String(),
			Message: "another Machine of the pool is being removed: wait until the removal ends"}
	case above.paused():
		return above, cloud.Refuse(reasonPaused, fmt.Sprintf("%s is paused, so Cluster API would ignore a write", above),
			"end the pause when the reason for the pause is gone").
			Error(opRemove, above.String())
	}
	return r.kube.patch(ctx, opRemove, above, oneReplicaLess(above, map[string]any{annotationPlace: uid, annotationPaused: ""}))
}

// oneReplicaLess returns the patch that reduces the replicas by 1.
func oneReplicaLess(o object, annotations map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"replicas": max(o.replicas()-1, 0)},
	}
}
