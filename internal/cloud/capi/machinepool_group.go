package capi

import (
	"context"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A MachinePool may be a group of the cloud, which replaces stopped and missing instances. So Kamino writes the image to the
// provider's object, as without Cluster API.

// inGroups performs the actions in the groups.
type inGroups struct{ *clusterAccess }

func (r *clusterAccess) inGroups() inGroups { return inGroups{r} }

// groupOf returns the group of a pool, or nil with the reasons for a missing group.
func (r inGroups) groupOf(ctx context.Context, v poolView) (*cloud.Pool, []cloud.Refusal, error) {
	if kind, known := machinePoolKindOf(v.named.GroupKind); v.resource != machinePools || !known || !kind.grouped {
		return nil, nil, nil
	}
	const remedy = "wait until the provider has made the group, or check the object's conditions"
	id := cloud.PoolID(v.template.text("spec", "providerID"))
	if id == "" || r.groups.IsEmpty() {
		return nil, refuse(true, nil, reasonPending, remedy, "%s does not name a group yet", v.template), nil
	}
	family, err := r.groups.Family(ctx, id)
	// A client that may write the object must not make Kamino change another group.
	if err == nil && (r.groups.PoolName(id) != v.named.name || family.Place != v.at.place) {
		return nil, refuse(true, nil, reasonPending, remedy, "%s names group %s, which is not the group of the pool", v.template, id), nil
	}
	if err != nil {
		return nil, nil, err
	}
	group, err := r.groups.Pool(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		return nil, refuse(true, nil, reasonPending, remedy, "%s names group %s, which does not exist", v.template, id), nil
	}
	if err != nil {
		return nil, nil, err
	}
	return &group, group.Refusals, nil
}

// pendingInGroup returns a refusal if the group's template does not have the image of the provider's object yet.
func (v poolView) pendingInGroup() []cloud.Refusal {
	if v.group == nil || v.group.Recipe.Image == v.image {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(reasonPending,
		fmt.Sprintf("%s names image %s, but the group's launch template names %s", v.named, v.image, v.group.Recipe.Image),
		"wait until the provider has updated the group, or check the condition LaunchTemplateReady of "+v.template.String())}
}

// preflight appends the obstacles in the group.
func (r inGroups) preflight(ctx context.Context, v poolView, spec cloud.PreflightSpec, found []cloud.Refusal) ([]cloud.Refusal, error) {
	spec.Pool, spec.RemovesBootstrap = v.group.ID, false
	more, err := r.groups.PreflightRecipe(ctx, spec)
	for _, refusal := range more {
		if !slices.Contains(found, refusal) {
			found = append(found, refusal)
		}
	}
	return found, err
}

// permissions returns the permissions of the cloud's credential.
func (r inGroups) permissions(ctx context.Context, v poolView) ([]cloud.Permission, error) {
	if v.group == nil {
		return nil, nil
	}
	return r.groups.Permissions(ctx, v.group.ID)
}
