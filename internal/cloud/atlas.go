package cloud

import "context"

// Atlas is the power to find pools that no node of the cluster tells of, because they have none. It is optional: a
// caller asks with As, and does without where a provider has it not.
type Atlas interface {
	// PoolsBeside lists the pools in the places where the given ones are (on Azure: their resource groups), those
	// included, each once. Whether their instances are nodes of this cluster is not known. It is a look. Within OneLook, later
	// looks at these pools' recipes may be answered from what the list has shown.
	PoolsBeside(ctx context.Context, pools ...PoolID) ([]PoolID, error)

	// ReadPool reads a pool's whole ID as a person or the cloud's own tool writes it. It is false for any other text.
	// It does no I/O: whether there is such a pool is not told.
	ReadPool(text string) (PoolID, bool)
}

// manyPools is from how many pools on a list of all costs less than a request for each.
const manyPools = 3

// Together lists the recipes of many pools at once. Looks within the context that it returns are answered from the list as far as the
// provider can. A provider without Atlas, and one that refuses the list, is asked for each pool.
func Together(ctx context.Context, provider Provider, ids []PoolID) context.Context {
	atlas, able := As[Atlas](provider)
	if !able || len(ids) < manyPools {
		return ctx
	}
	ctx = OneLook(ctx)
	_, _ = atlas.PoolsBeside(ctx, ids...) // the looks at the pools meet what is in the way
	return ctx
}
