package cloud

import "context"

// Census is the power to list a pool's instances at once, which tells how many nodes run each version. It
// is optional: a caller asks with As, and does without where a provider has it not.
type Census interface {
	// Instances lists the pool's instances with what their own records say: ID, pool, protection, refusals
	// and Image and BuiltFrom, as Instance shows them. Power may be PowerUnknown, for a cloud may tell it of one
	// instance at a time only, and CreatedAt when the instance was asked for. NotFound if the pool does not exist. It is a look: it changes nothing.
	Instances(ctx context.Context, pool PoolID) ([]Instance, error)

	// MaxImages is from how many different images the instances of the pool may have been built, what its recipe
	// names included; 0 if the cloud does not care. A pool that has reached it grows no more. It does no I/O.
	MaxImages(pool PoolID) int
}
