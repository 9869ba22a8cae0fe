package cloud

import "context"

// Rebuild is the progress of an instance's rebuild.
type Rebuild struct {
	// State is Pending during the rebuild, and Complete once the instance runs from a disk of the version.
	State State
	// Trouble is the cloud's message if the last attempt failed. The call that returned it has started another attempt.
	Trouble string
}

// Rebuilder is the power to rebuild an instance in place: with the pool's current recipe and an OS disk of the recipe's
// image. Name, address and ID stay; the OS disk's content is lost. Rebuilder is optional: use As.
type Rebuilder interface {
	// EnsureRebuilt starts to rebuild the instance unless it was built from the version or is being rebuilt, and
	// returns the progress. It returns Conflict, before any change, if the pool's recipe does not name the version, and
	// NotFound without the instance. The guest is not asked: cordon and drain first.
	EnsureRebuilt(ctx context.Context, id InstanceID, version string) (Rebuild, error)
}
