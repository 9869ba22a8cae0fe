// Package region is a simulated cloud as the sandbox itself uses it: it makes pools there and changes their size as an autoscaler
// does, with the cloud's own SDK, and looks at what is there as the cloud's owner would. What the clouds have in common is a
// Region, so that the rest of the sandbox asks for no cloud by its name; what only one of them has is its own type's.
package region

import (
	"context"
	"crypto/tls"
	"net"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/book"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/site"
)

// Region is a simulated cloud.
type Region interface {
	// Serve answers on the listener until the context ends.
	Serve(ctx context.Context, l net.Listener) error
	// Close stops what is in flight, and waits for it.
	Close()

	// MakePool makes a pool whose recipe has these user data, and returns when its machines have power. One that is there is left.
	MakePool(ctx context.Context, spec pool.Spec, userData string) error
	// Pool is what the cloud says of one; false while it is being made.
	Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error)
	// Resize asks for another size, as an autoscaler would, and says what it was. failed returns once the cloud has given up, with
	// the reason, or nil when it has nothing more to do; it is nil where a cloud tries on by itself.
	Resize(ctx context.Context, spec pool.Spec, nodes int64) (was int64, failed func(context.Context) error, err error)
	// Owns tells which Nodes are a pool's now.
	Owns(spec pool.Spec) func(*corev1.Node) bool
	// Remove takes a machine out of its pool for good, as an autoscaler does that finds it idle, and returns when it is gone.
	Remove(ctx context.Context, m machine.Status) error
	// Snapshots are the names of those that are no image's, in no order.
	Snapshots(ctx context.Context) ([]string, error)
	// Versions of the images that a pool's captures published, in no order; none for a pool that was never captured.
	Versions(ctx context.Context, spec pool.Spec) ([]Version, error)
	// Instances of a pool, by the IDs that its machines have.
	Instances(ctx context.Context, spec pool.Spec) ([]string, error)
	// Held are those of them that the pool may not take away, because somebody protects them or has put them aside.
	Held(ctx context.Context, spec pool.Spec) ([]string, error)
	// Rolled are the instances that were rebuilt or replaced while they ran, for no other reason than their recipe.
	Rolled() []string
	// Specs are the machines as the fleet was told to make them.
	Specs() []fleet.Spec

	Requests() []book.Request
	Stats() book.Stats
	ResetStats()
	AddFault(f fault.Fault) (string, error)
	Faults() []fault.Fault
	ClearFaults(names ...string) error
}

// Version of a pool's image.
type Version struct {
	// Name is the version's, such as "2026.03.14"; ID what recipes name it by.
	Name, ID string
	Tags     map[string]string
	// Disk is its content.
	Disk fleet.DiskID
	// Complete: nodes can be built from it.
	Complete bool
}

// Config is what every region is made of.
type Config struct {
	// Dir keeps its state.
	Dir     string
	Clock   clock.Clock
	Fleet   *machine.Fleet
	Facts   site.Facts
	Servers site.Servers
	// Certificate that it shows.
	Certificate tls.Certificate
}
