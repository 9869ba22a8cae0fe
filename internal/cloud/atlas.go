package cloud

import "context"

// Atlas is the power to find pools without nodes. Atlas is optional: use As.
type Atlas interface {
	// PoolsBeside returns the pools next to the given pools (on Azure: in the same resource groups), including the
	// given pools, each once. The instances need not be nodes of this cluster. PoolsBeside changes nothing. Within
	// OneLook, later reads of the recipes of these pools may use the result of the list.
	PoolsBeside(ctx context.Context, pools ...PoolID) ([]PoolID, error)

	// ReadPool parses a pool's full ID as a person or the cloud's tool writes it; false for any other text. ReadPool
	// does no I/O and does not check whether the pool exists.
	ReadPool(text string) (PoolID, bool)
}

// manyPools is the number of pools from which one list of all pools costs less than a request per pool.
const manyPools = 3

// Together lists the recipes of many pools at once. Reads with the returned context use the list as far as the provider
// can. If the provider has no Atlas or refuses the list, each pool takes a request.
func Together(ctx context.Context, provider Provider, ids []PoolID) context.Context {
	atlas, able := As[Atlas](provider)
	if !able || len(ids) < manyPools {
		return ctx
	}
	ctx = OneLook(ctx)
	_, _ = atlas.PoolsBeside(ctx, ids...) // reads of the pools report the error
	return ctx
}
