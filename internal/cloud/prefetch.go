package cloud

import (
	"context"
	"sync"
)

// parallel is the number of pools read at once.
const parallel = 16

// EachPool lists the recipes of the pools at once, and calls do for each pool by its place in the list, several at a time.
func EachPool(ctx context.Context, provider poolNames, ids []PoolID, do func(ctx context.Context, i int)) {
	ctx = PrefetchRecipes(ctx, provider, ids)
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range ids {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			do(ctx, i)
		})
	}
	wait.Wait()
}

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
