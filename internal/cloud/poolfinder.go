package cloud

import "context"

// PoolFinder is the power to find pools without nodes. PoolFinder is optional: use As.
type PoolFinder interface {
	// PoolsInScope returns the pools next to the given pools (on Azure: in the same resource groups), including the
	// given pools, each once. The instances need not be nodes of this cluster. PoolsInScope changes nothing. Within
	// WithReadCache, later reads of the recipes of these pools may use the result of the list.
	PoolsInScope(ctx context.Context, pools ...PoolID) ([]PoolID, error)

	// ReadPool parses a pool's full ID as a person or the cloud's tool writes it; false for any other text. ReadPool
	// does no I/O and does not check whether the pool exists.
	ReadPool(text string) (PoolID, bool)
}

// prefetchFrom is the number of pools from which one list of all pools costs less than a request per pool.
const prefetchFrom = 3

// PrefetchRecipes lists the recipes of many pools at once. Reads with the returned context use the list as far as the provider
// can. If the provider has no PoolFinder or refuses the list, each pool takes a request.
func PrefetchRecipes(ctx context.Context, provider Provider, ids []PoolID) context.Context {
	finder, able := As[PoolFinder](provider)
	if !able || len(ids) < prefetchFrom {
		return ctx
	}
	ctx = WithReadCache(ctx)
	_, _ = finder.PoolsInScope(ctx, ids...) // reads of the pools report the error
	return ctx
}
