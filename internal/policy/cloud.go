package policy

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// Cloud has the calls of a cloud.Provider for decisions about pools, and for rollbacks.
type Cloud interface {
	membership.Registry
	recipe.Cloud
	recipe.WarmCloud
	PoolName(id cloud.PoolID) string
	SameInstance(a, b cloud.InstanceID) bool
	CanRebuild(pool cloud.PoolID) bool
	capturemethod.Cloud
}

// PoolReader has the calls of a cloud.Provider whose answers a PoolCache keeps.
type PoolReader interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
	ReadPool(text string) (cloud.PoolID, bool)
	PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error)
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	MaxImages(pool cloud.PoolID) int
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
	Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error)
}
