package cloud

import "context"

// Atlas is the power to find pools that no node of the cluster tells of, because they have none. It is optional: a
// caller asks with As, and does without where a provider has it not.
type Atlas interface {
	// PoolsBeside lists the pools in the places where the given ones are (on Azure: their resource groups), those
	// included, each once. Whether their instances are nodes of this cluster is not known. It is a look.
	PoolsBeside(ctx context.Context, pools ...PoolID) ([]PoolID, error)

	// ReadPool reads a pool's whole ID as a person or the cloud's own tool writes it. It is false for any other text.
	// It does no I/O: whether there is such a pool is not told.
	ReadPool(text string) (PoolID, bool)
}
