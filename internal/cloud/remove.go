package cloud

import "context"

// Remover is the power to remove an instance from its pool for good and to shrink the pool, so that no replacement is
// created. A PoolProvider implements Remover, for donors that cannot return. Remover is optional: use As.
type Remover interface {
	// EnsureRemoved starts to remove the instance with its OS disk, in any power state and in spite of protection. It
	// returns Deleting, or Absent after the removal. Repeated calls shrink the pool only once, also after the removal.
	// A missing instance is Absent.
	//
	// The guest is not asked: drain first. EnsureRemoved returns Denied if a lock of the cloud protects the instance.
	EnsureRemoved(ctx context.Context, id InstanceID) (State, error)
}
