package cloud

import "context"

// prefetchFrom is the number of pools from which one list of all pools costs less than a request per pool.
const prefetchFrom = 3

// PrefetchRecipes lists the recipes of many pools at once. Reads with the returned context use the list as far as the provider
// can. If the provider refuses the list, each pool takes a request.
func PrefetchRecipes(ctx context.Context, provider poolNames, ids []PoolID) context.Context {
	if len(ids) < prefetchFrom {
		return ctx
	}
	ctx = WithReadCache(ctx)
	_, _ = provider.PoolsInScope(ctx, ids...) // reads of the pools report the error
	return ctx
}
