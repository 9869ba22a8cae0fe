package capi

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Removing a Machine with its place takes three writes that Cluster API knows no single one for, because a MachineDeployment that
// shrinks chooses by itself which of its MachineSets loses a Machine. The Machine is deleted first, and a hook has its deletion wait;
// then the MachineDeployment, paused, and the MachineSet each get a place fewer, each with the Machine's UID in the same write, so that
// none is taken twice; then the pause and the hook go. At every moment what is left to do can be read off the objects.

const opRemove = "remove"

// values of annotationRemoving.
const (
	removalBegun    = "begun"
	removalReleased = "released"
)

// EnsureRemoved implements cloud.Remover.
func (r *Recipes) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (state cloud.State, err error) {
	err = again(func() error {
		state, err = r.ensureRemoved(cloud.Anew(ctx), id)
		return err
	})
	return state, err
}

func (r *Recipes) ensureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	m, err := r.machineOf(ctx, opRemove, id)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	}
	switch begun := m.GetAnnotations()[annotationRemoving]; {
	case begun == removalReleased:
		return cloud.Deleting, nil
	case begun == "" && m.deleting(): // by somebody else, who knows what is to become of its place: only our hook must go
		return cloud.Deleting, r.letGo(ctx, m)
	case begun == "" || !m.is(annotationHook):
		begin, err := r.beginRemoval(ctx, m)
		if err != nil {
			return cloud.Absent, err
		}
		if m, err = r.kube.annotate(ctx, opRemove, m, begin); err != nil {
			return cloud.Absent, err
		}
	}
	if !m.deleting() {
		if err := r.kube.remove(ctx, opRemove, m); err != nil {
			return cloud.Absent, err
		}
	}
	if err := r.takePlaceOf(ctx, m); err != nil {
		return cloud.Absent, err
	}
	if m, err = r.machineOf(ctx, opRemove, id); err != nil {
		if cloud.Is(err, cloud.NotFound) {
			return cloud.Absent, nil
		}
		return cloud.Absent, err
	}
	return cloud.Deleting, r.letGo(ctx, m)
}

// letGo has a Machine's deletion wait for us no more.
func (r *world) letGo(ctx context.Context, m object) error {
	_, err := r.kube.annotate(ctx, opRemove, m, map[string]any{annotationRemoving: removalReleased, annotationHook: nil})
	return err
}

// takePlaceOf takes the place of a Machine, whose deletion waits, from its MachineSet and its MachineDeployment. One that is gone has
// no place to take.
func (r *world) takePlaceOf(ctx context.Context, m object) error {
	owner := m.controller()
	if owner != nil && owner.Kind == kindPool {
		return r.takeFromMachinePool(ctx, owner.Name, string(m.GetUID()))
	}
	if owner == nil || owner.Kind != kindSet {
		return nil
	}
	set, err := r.kube.get(ctx, core(kindSet), owner.Name)
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var above object
	if by := set.controller(); by != nil && by.Kind == kindDeployment {
		above, err = r.kube.get(ctx, core(kindDeployment), by.Name)
		if err != nil && !cloud.Is(err, cloud.NotFound) {
			return err
		}
	}
	uid := string(m.GetUID())
	if set.GetAnnotations()[annotationPlace] != uid {
		if above.Unstructured != nil {
			if above, err = r.takeFromDeployment(ctx, above, uid); err != nil {
				return err
			}
		}
		if _, err := r.kube.patch(ctx, opRemove, set, onePlaceFewer(set, map[string]any{annotationPlace: uid})); err != nil {
			return err
		}
	}
	if above.Unstructured == nil || above.GetAnnotations()[annotationPlace] != uid {
		return nil
	}
	_, err = r.kube.annotate(ctx, opRemove, above, map[string]any{annotationPlace: nil, annotationPaused: nil})
	return err
}

// takeFromDeployment pauses a MachineDeployment with a place fewer, unless that was done.
func (r *world) takeFromDeployment(ctx context.Context, above object, uid string) (object, error) {
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
