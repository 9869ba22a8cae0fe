package cloud

import "context"

// Shelf is the power to find the snapshots that captures have made, also those of captures that nobody knows of any
// more. It is optional: a caller asks with As, and does without where a provider has it not.
type Shelf interface {
	// Snapshots lists the snapshots that carry TagUID in the places where those of the pools are kept, each once.
	// Name is that of TagPrototype. It is a look.
	Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error)

	// DropSnapshot starts the deletion of one of them, by its ID. Deleting nothing is nil.
	DropSnapshot(ctx context.Context, id string) error
}
