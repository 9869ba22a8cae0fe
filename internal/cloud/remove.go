package cloud

import "context"

// Remover is the power to take an instance out of its pool for good, with its place: from then on the pool is meant to have
// one node fewer, and nothing is made in its stead. It belongs to Recipes, and is what becomes of a donor that cannot come
// back. It is optional: a caller asks with As.
type Remover interface {
	// EnsureRemoved starts to remove the instance, with its OS disk, whatever its power and its hold, and tells how far
	// that is: Deleting, or Absent once the cloud does not have it any more. Repeating it never takes a second place from
	// the pool, neither while the first is on its way nor when it is done; an instance that does not exist is Absent. It
	// does not ask the guest: drain first. Denied where something of the cloud's own, such as a lock, keeps the instance.
	EnsureRemoved(ctx context.Context, id InstanceID) (State, error)
}
