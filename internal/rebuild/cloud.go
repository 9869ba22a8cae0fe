package rebuild

import (
	"context"
	"fmt"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Cloud has the calls of a cloud.Provider that rebuild instances.
type Cloud interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
	CanRebuild(pool cloud.PoolID) bool
	Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error)
	EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error)
}

// Refuse returns why Kamino may not rebuild nodes of a pool; nil if it may, or if the credential may not list its permissions. The request
// itself then shows what is missing.
func Refuse(ctx context.Context, c Cloud, pool cloud.PoolID) ([]cloud.Refusal, error) {
	all, err := c.Permissions(ctx, pool)
	switch {
	case cloud.Is(err, cloud.Denied), cloud.Is(err, cloud.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, p := range all {
		if p.For == cloud.ForRebuild && !p.Allowed {
			return []cloud.Refusal{cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", p.Action, p.Scope), p.Remedy)}, nil
		}
	}
	return nil, nil
}
