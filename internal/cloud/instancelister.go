package cloud

import "context"

// InstanceLister is the power to list a pool's instances, for example to count the nodes of each version. InstanceLister is optional:
// use As.
type InstanceLister interface {
	// Instances returns the pool's instances with ID, pool, protection, refusals, Image and BuiltFrom. Power may be
	// PowerUnknown, because some clouds report power only for single instances. CreatedAt may be the time of the
	// request. Instances returns NotFound without the pool. It changes nothing.
	Instances(ctx context.Context, pool PoolID) ([]Instance, error)

	// MaxImages returns the limit of different images in the pool, including the recipe's image; 0 without a limit. A
	// pool at the limit cannot grow. MaxImages does no I/O.
	MaxImages(pool PoolID) int
}
