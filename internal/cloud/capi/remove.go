package capi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Removing a Machine with its place takes three writes that Cluster API knows no single one for, because a MachineDeployment that
// shrinks chooses by itself which of its MachineSets loses a Machine. The Machine is deleted first, and a hook has its deletion wait;
// then the MachineDeployment, paused, and the MachineSet each get a place fewer, each with the removal's name in the same write, so that
// none is taken twice; then the pause and the hook go. At every moment what is left to do can be read off the objects.
//
// Cluster API's controllers act by what they last saw of an object, which may be behind what it is: one that does not know of the pause
// would give the set its place back, and have it lose another Machine once it knows of the pool's new size. So after each of the two writes
// it is waited for that Cluster API has taken note.

const opRemove = "remove"

// removalReleased is the value of annotationRemoving once the place is taken. Before, it is the UID that the Machine had when its removal
// began: a Cluster that is moved has other ones, and what carries this one was written for the same removal.
const removalReleased = "released"

// removal removes Machines with their places.
type removal struct{ *world }

// EnsureRemoved implements cloud.Remover.
func (r *PoolProvider) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (state cloud.State, err error) {
	err = again(func() error {
		state, err = removal{r.world}.ensure(cloud.WithoutReadCache(ctx), id)
		if cloud.Is(err, cloud.NotFound) { // it went between a look and a write
			state, err = removal{r.world}.ensure(cloud.WithoutReadCache(ctx), id)
		}
		return err
	})
	return state, err
}

func (r removal) ensure(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	if err := r.atHome(ctx, opRemove); err != nil {
		return cloud.Absent, err
	}
	m, err := r.machineOf(ctx, opRemove, id)
	if err != nil {
		return cloud.Absent, r.ended(ctx, err)
	}
	if r.grouped(m) {
		return r.removeFromGroup(ctx, id, m)
	}
	switch begun := m.GetAnnotations()[annotationRemoving]; {
	case begun == removalReleased && m.deleting():
		return cloud.Deleting, nil
	case begun == removalReleased: // and moved since, as one that nobody has deleted
		return cloud.Deleting, r.kube.remove(ctx, opRemove, m)
	case begun == "" && m.deleting(): // by somebody else, who knows what is to become of its place: only our hook must go
		return cloud.Deleting, r.letGo(ctx, m)
	}
	if m, err = r.begin(ctx, m); err != nil {
		return cloud.Absent, err
	}
	if err := r.takePlaceOf(ctx, m); err != nil {
		return cloud.Absent, err
	}
	if m, err = r.machineOf(ctx, opRemove, id); err != nil {
		return cloud.Absent, r.ended(ctx, err)
	}
	return cloud.Deleting, r.letGo(ctx, m)
}

// begin deletes a Machine, with a hook that has that wait, and returns it as it is then.
func (r removal) begin(ctx context.Context, m object) (object, error) {
	if err := r.mayTakePlaceOf(ctx, m); err != nil {
		return m, err
	}
	if begun := m.GetAnnotations()[annotationRemoving]; begun == "" || !m.is(annotationHook) {
		marks, err := r.marksOf(ctx, m, cmp.Or(begun, string(m.GetUID())))
		if err != nil {
			return m, err
		}
		if m, err = r.kube.annotate(ctx, opRemove, m, marks); err != nil {
			return m, err
		}
	}
	switch {
	case m.deleting():
		return m, nil
	case m.text("status", "nodeRef", "name") == "": // as just after a move
		return m, &cloud.Error{Kind: cloud.Unavailable, Op: opRemove, Resource: m.String(), Code: reasonNotHeld,
			Message: "it has no status.nodeRef yet, so that Cluster API would delete it without waiting for its place to be taken"}
	}
	return m, r.kube.remove(ctx, opRemove, m)
}

// ended is what is left to do where a Machine cannot be read: nothing but to tidy up, if it is gone.
func (r removal) ended(ctx context.Context, err error) error {
	if cloud.Is(err, cloud.NotFound) {
		return r.releasePools(ctx)
	}
	return err
}

// letGo has a Machine's deletion wait for us no more.
func (r removal) letGo(ctx context.Context, m object) error {
	_, err := r.kube.annotate(ctx, opRemove, m, map[string]any{annotationRemoving: removalReleased, annotationHook: nil})
	return err
}

// mayTakePlaceOf refuses to begin with a Machine whose place would come back: that of a pool whose size its topology says.
func (r removal) mayTakePlaceOf(ctx context.Context, m object) error {
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

// takePlaceOf takes the place of a Machine, whose deletion waits, from its MachinePool, or from its MachineSet and its MachineDeployment.
// One that is gone has no place to take.
func (r removal) takePlaceOf(ctx context.Context, m object) error {
	owner, name := m.controller(), m.GetAnnotations()[annotationRemoving]
	switch {
	case owner == nil:
		return nil
	case owner.Kind == kindPool:
		return r.takeFromMachinePool(ctx, owner.Name, name)
	case owner.Kind != kindSet:
		return nil
	}
	set, err := r.kube.get(ctx, core(kindSet), owner.Name)
	if err = r.believed(ctx, opRemove, err); cloud.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var above object
	if by := set.controller(); by != nil && by.Kind == kindDeployment {
		above, err = r.kube.get(ctx, core(kindDeployment), by.Name)
		if err = r.believed(ctx, opRemove, err); err != nil && !cloud.Is(err, cloud.NotFound) {
			return err
		}
	}
	return r.takeFrom(ctx, set, above, name)
}

// takeFrom takes a place from a MachineSet and, where there is one, from the MachineDeployment above it, unless that was done.
func (r removal) takeFrom(ctx context.Context, set, above object, name string) (err error) {
	if set.GetAnnotations()[annotationPlace] != name {
		if above.Unstructured != nil {
			if above, err = r.takeFromDeployment(ctx, above, name); err != nil {
				return err
			}
			if err := r.noted(ctx, above); err != nil {
				return err
			}
		}
		if set, err = r.kube.patch(ctx, opRemove, set, onePlaceFewer(set, map[string]any{annotationPlace: name})); err != nil {
			return err
		}
	}
	if err := r.noted(ctx, set); err != nil {
		return err
	}
	if above.Unstructured == nil || above.GetAnnotations()[annotationPlace] != name {
		return nil
	}
	_, err = r.kube.annotate(ctx, opRemove, above, map[string]any{annotationPlace: nil, annotationPaused: nil})
	return err
}

// noted waits until Cluster API has taken note of an object as it is now.
func (r removal) noted(ctx context.Context, o object) error {
	for last := time.Now().Add(patience); !o.noted(); {
		if time.Now().After(last) {
			return &cloud.Error{Kind: cloud.Unavailable, Op: opRemove, Resource: o.String(), Code: reasonUnnoticed,
				Message: "Cluster API has not taken note of its new size, by its condition " + conditionPaused + ": see whether Cluster API's controllers run"}
		}
		err := pause(ctx, opRemove, o, glance)
		if err == nil {
			o, err = r.kube.get(cloud.WithoutReadCache(ctx), core(o.GetKind()), o.GetName())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// releasePools gives the MachineDeployments back that a removal has paused whose Machine is gone without it: the hook was taken away, or
// passed by. One whose set was not told of the removal has filled the place again, and gets it back, lest it chooses a Machine to lose.
func (r removal) releasePools(ctx context.Context) error {
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
		if told := slices.IndexFunc(sets, func(s object) bool { return s.GetAnnotations()[annotationPlace] == removal }); told < 0 {
			change["spec"] = map[string]any{"replicas": pool.replicas() + 1}
		} else if err := r.noted(ctx, sets[told]); err != nil {
			return err
		}
		if _, err := r.kube.patch(ctx, opRemove, pool, change); err != nil {
			return err
		}
	}
	return nil
}

// takeFromDeployment pauses a MachineDeployment with a place fewer, unless that was done.
func (r removal) takeFromDeployment(ctx context.Context, above object, uid string) (object, error) {
	switch by := above.GetAnnotations()[annotationPlace]; {
	case by == uid:
		return above, nil
	case by != "":
		return above, &cloud.Error{Kind: cloud.Conflict, Op: opRemove, Resource: above.String(), Message: "another of its Machines is being removed: wait for that"}
	case above.paused():
		return above, cloud.Refuse(reasonPaused, fmt.Sprintf("%s is paused, so that Cluster API carries nothing out", above), "take the pause away once whoever set it is done").
			Error(opRemove, above.String())
	}
	return r.kube.patch(ctx, opRemove, above, onePlaceFewer(above, map[string]any{annotationPlace: uid, annotationPaused: ""}))
}

// onePlaceFewer is the change by which an object is meant to have one Machine fewer.
func onePlaceFewer(o object, annotations map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"replicas": max(o.replicas()-1, 0)},
	}
}
