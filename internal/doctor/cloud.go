package doctor

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Cloud has the calls of a cloud.Provider for the examination of pools.
type Cloud interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
	ReadPool(text string) (cloud.PoolID, bool)
	PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error)
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error)
	MaxImages(pool cloud.PoolID) int
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
	Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error)
	capturemethod.Cloud
}
