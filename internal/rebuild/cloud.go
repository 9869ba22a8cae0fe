package rebuild

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Cloud has the calls of a cloud.Provider that rebuild instances.
type Cloud interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
	CanRebuild() bool
	EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error)
}
