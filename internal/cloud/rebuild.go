package cloud

import "context"

// Rebuild is how far an instance is that is being built anew.
type Rebuild struct {
	// State is Pending while the cloud works on it, and Complete once the instance runs on a disk that was made
	// from the version.
	State State
	// Trouble is the cloud's own text if its last attempt failed. Asking again has started another one.
	Trouble string
}

// Rebuilder is the power to build an instance anew in its place: with the pool's recipe as it is now, and an OS
// disk made from the recipe's image. Its name, address and ID stay; what was on its OS disk is lost. It is
// optional: a caller asks with As.
type Rebuilder interface {
	// EnsureRebuilt starts to rebuild the instance unless it was built from the version, or is being rebuilt,
	// and tells how far it is. Conflict, before anything is changed, if the pool's recipe does not name the
	// version; NotFound if the instance does not exist. It does not ask the guest: cordon and drain first.
	EnsureRebuilt(ctx context.Context, id InstanceID, version string) (Rebuild, error)
}
