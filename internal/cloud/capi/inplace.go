package capi

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// What changes a running machine, or its disk, is not for machines of Cluster API: a MachineHealthCheck replaces a Machine whose
// Node is away, and a group replaces its instance.

// CapturesInPlace implements cloud.PoolProvider.
func (r *PoolProvider) CapturesInPlace() bool { return false }

// Protection implements cloud.PoolProvider. The token is empty.
func (r *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	_, err := r.machineOf(ctx, "read the protection of", id)
	return cloud.Protection{}, err
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (r *PoolProvider) ProtectFromScaleIn(_ context.Context, id cloud.InstanceID, token string) error {
	return refuseToken("hold", id, token)
}

// Unprotect implements cloud.PoolProvider.
func (r *PoolProvider) Unprotect(_ context.Context, id cloud.InstanceID, token string) error {
	if token == cloud.TokenUnprotected {
		return nil
	}
	return refuseToken("return to service", id, token)
}

func refuseToken(op string, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	return &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id), Message: "Kamino protects no Machine of Cluster API"}
}

// CanRebuild implements cloud.PoolProvider: Cluster API replaces a Machine instead.
func (r *PoolProvider) CanRebuild() bool { return false }

// EnsureRebuilt implements cloud.PoolProvider.
func (r *PoolProvider) EnsureRebuilt(_ context.Context, id cloud.InstanceID, _ string) (cloud.Rebuild, error) {
	return cloud.Rebuild{}, &cloud.Error{Kind: cloud.Unsupported, Op: "rebuild", Resource: string(id),
		Message: "Cluster API rebuilds no Machine in place: delete the Machine"}
}
