package cloud

import "context"

// SnapshotLister is the power to find the snapshots of captures, also of forgotten captures. SnapshotLister is optional: use As.
type SnapshotLister interface {
	// Snapshots returns the snapshots with TagUID in the places of the pools' snapshots, each once. Name is the value
	// of TagPrototype. Snapshots changes nothing.
	Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error)

	// DropSnapshot starts the deletion of a snapshot by ID. A missing snapshot is no error.
	DropSnapshot(ctx context.Context, id string) error
}
