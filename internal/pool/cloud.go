package pool

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// Cloud has the calls of a cloud.Provider that read pools and their versions.
type Cloud interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
	ReadPool(text string) (cloud.PoolID, bool)
	PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error)
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	MaxImages(pool cloud.PoolID) int
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
	SameInstance(a, b cloud.InstanceID) bool
	Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error)
	Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error)
}
