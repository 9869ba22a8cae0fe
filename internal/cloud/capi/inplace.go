package capi

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// No capture changes a running machine here: a MachineHealthCheck replaces a Machine whose Node is away, and a group its instance.

// CapturesInPlace implements cloud.PoolProvider.
func (r *PoolProvider) CapturesInPlace() bool { return false }

// Protection implements cloud.PoolProvider. The token is empty.
func (r *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	_, err := r.machineOf(ctx, "read the protection of", id)
	return cloud.Protection{}, err
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (r *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return refuseToken(ctx, r, "hold", id, token)
}

// Unprotect implements cloud.PoolProvider.
func (r *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	return refuseToken(ctx, r, "return to service", id, token, cloud.TokenUnprotected)
}

// refuseToken refuses tokens, because Protection gives none, except those that change nothing.
func refuseToken(ctx context.Context, r *PoolProvider, op string, id cloud.InstanceID, token string, but ...string) error {
	if token == "" {
		return nil
	}
	if _, err := r.machineOf(ctx, op, id); err != nil || slices.Contains(but, token) {
		return err
	}
	return &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id), Message: "Kamino protects no Machine of Cluster API"}
}

// CanRebuild implements cloud.PoolProvider: Cluster API replaces a Machine instead.
func (r *PoolProvider) CanRebuild(cloud.PoolID) bool { return false }

// ResizeWarmPool implements cloud.PoolProvider: Cluster API has none.
func (*PoolProvider) ResizeWarmPool(_ context.Context, pool cloud.PoolID, _, _ cloud.WarmLimits) error {
	return &cloud.Error{Kind: cloud.NotFound, Op: "resize the warm pool of", Resource: string(pool), Message: "the pool has no warm pool"}
}

// EnsureRebuilt implements cloud.PoolProvider.
func (r *PoolProvider) EnsureRebuilt(_ context.Context, id cloud.InstanceID, _ string) (cloud.Rebuild, error) {
	return cloud.Rebuild{}, &cloud.Error{Kind: cloud.Unsupported, Op: "rebuild", Resource: string(id),
		Message: "Cluster API rebuilds no Machine in place: delete the Machine"}
}
