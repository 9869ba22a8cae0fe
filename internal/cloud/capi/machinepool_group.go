package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// What a MachinePool's provider makes may be a group of the cloud's own, which counts its instances and replaces what is stopped or gone.
// Where the replicas are managed elsewhere the provider only copies the group's size, and its template names the image. So the image is
// written to the provider's object, and whoever is held, removed or added is so in the group, as without Cluster API: a Machine is made
// after its instance, and goes after it.

// inGroups is what is done in them.
type inGroups struct{ *world }

func (r *world) inGroups() inGroups { return inGroups{r} }

// of is the group behind a pool, where there is one, and why it cannot be told.
func (r inGroups) of(ctx context.Context, v view) (*cloud.Pool, []cloud.Refusal, error) {
	if kind, known := pooledOf(v.named.GroupKind); v.resource != machinePools || !known || !kind.grouped {
		return nil, nil, nil
	}
	const remedy = "wait until it is made, or see its conditions"
	id := cloud.PoolID(v.template.text("spec", "providerID"))
	if id == "" || r.groups == nil {
		return nil, refuse(true, nil, reasonGroup, remedy, "%s names no group yet that its instances are in", v.template), nil
	}
	line, err := r.groups.Line(ctx, id)
	if err == nil && (r.groups.PoolName(id) != v.named.name || line.Place != v.at.place) { // whoever may write the object shall have Kamino touch no other group
		return nil, refuse(true, nil, reasonGroup, remedy, "%s names the group %s, which is not its own", v.template, id), nil
	}
	if err != nil {
		return nil, nil, err
	}
	group, err := r.groups.Pool(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		return nil, refuse(true, nil, reasonGroup, remedy, "%s names the group %s, which does not exist", v.template, id), nil
	}
	if err != nil {
		return nil, nil, err
	}
	return &group, group.Refusals, nil
}

// pendingInGroup tells that the group's template names another image than the provider's object: nothing is built from that one yet.
func (v view) pendingInGroup() []cloud.Refusal {
	if v.group == nil || v.group.Recipe.Image == v.image {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(reasonGroupPending, fmt.Sprintf("%s names the image %s, and the launch template of its group %s", v.named, v.image, v.group.Recipe.Image),
		"wait until Cluster API's provider has carried it out, or see the condition LaunchTemplateReady of "+v.template.String())}
}

// grouped tells whether a Machine is that of an instance in a group.
func (r *world) grouped(m object) bool {
	owner, of := m.controller(), m.reference(pathMachineInfrastructure...)
	if owner == nil || owner.Kind != kindPool || r.groups == nil {
		return false
	}
	for _, kind := range pooledKinds {
		if kind.grouped && kind.of.machine == of.Kind {
			return true
		}
	}
	return false
}

// tokens of a hold in a group are two: the Machine's, and the instance's in its group.
const betweenTokens = ";"

func joinTokens(machine, group string) string {
	if machine == cloud.TokenUnprotected && group == cloud.TokenUnprotected {
		return cloud.TokenUnprotected
	}
	return machine + betweenTokens + group
}

// splitToken takes them apart; the group's is empty where there was none.
func splitToken(token string) (machine, group string) {
	if token == cloud.TokenUnprotected {
		return cloud.TokenUnprotected, cloud.TokenUnprotected
	}
	machine, group, _ = strings.Cut(token, betweenTokens)
	return machine, group
}

// holdOf is the hold of a Machine with that of its instance in a group. One that is gone is held by what is kept of it.
func (r inGroups) holdOf(ctx context.Context, id cloud.InstanceID, of cloud.Protection) (cloud.Protection, error) {
	in, err := r.groups.Protection(ctx, id)
	switch {
	case cloud.Is(err, cloud.NotFound), err == nil && in.Token == "":
		return of, nil
	case err != nil:
		return cloud.Protection{}, err
	}
	return cloud.Protection{Protected: of.Protected && in.Protected, Token: joinTokens(of.Token, in.Token), Lasts: true}, nil
}

// hold holds the instance of a Machine in its group, or gives it back there, where it is in one.
func (r inGroups) hold(ctx context.Context, op string, id cloud.InstanceID, token string) error {
	_, inGroup := splitToken(token)
	if inGroup == "" || token == cloud.TokenUnprotected && r.groups == nil {
		return nil
	}
	if err := r.atHome(ctx, op); err != nil {
		return err
	}
	m, err := r.machineOf(cloud.WithoutReadCache(ctx), op, id)
	switch {
	case err != nil:
		return err
	case r.grouped(m) && op == opHold:
		return r.groups.ProtectFromScaleIn(ctx, id, inGroup)
	case r.grouped(m):
		return r.groups.Unprotect(ctx, id, inGroup)
	case token == cloud.TokenUnprotected:
		return nil
	}
	return &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id), Message: fmt.Sprintf("the token %q is that of an instance in a group, which this is not", token[:min(len(token), cloud.MaxToken)])}
}

// removeFromGroup has the group end an instance, with its place, and then lets the Machine go: as long as there is an instance, there is a
// Machine that tells of it.
func (r removal) removeFromGroup(ctx context.Context, id cloud.InstanceID, m object) (cloud.State, error) {
	remover, able := r.groups.(cloud.Remover)
	if !able {
		return cloud.Absent, &cloud.Error{Kind: cloud.Unsupported, Op: opRemove, Resource: m.String(), Message: "nothing can be removed from groups of its cloud"}
	}
	if state, err := remover.EnsureRemoved(ctx, id); err != nil || state != cloud.Absent {
		return state, err
	}
	if m.is(annotationHook) || !m.is(annotationRemoving) {
		if err := r.letGo(ctx, m); err != nil {
			return cloud.Absent, err
		}
	}
	if !m.deleting() {
		return cloud.Deleting, r.kube.remove(ctx, opRemove, m)
	}
	return cloud.Deleting, nil
}

// preflight adds what is against a capture in the group to what was found.
func (r inGroups) preflight(ctx context.Context, v view, spec cloud.PreflightSpec, found []cloud.Refusal) ([]cloud.Refusal, error) {
	spec.Pool, spec.RemovesBootstrap = v.group.ID, false
	more, err := r.groups.PreflightRecipe(ctx, spec)
	for _, refusal := range more {
		if !slices.Contains(found, refusal) {
			found = append(found, refusal)
		}
	}
	return found, err
}

// permissions are those of the cloud's credential.
func (r inGroups) permissions(ctx context.Context, v view) ([]cloud.Permission, error) {
	auditor, able := r.groups.(cloud.PermissionChecker)
	if v.group == nil || !able {
		return nil, nil
	}
	return auditor.Permissions(ctx, v.group.ID)
}
