// Package region is a simulated cloud from the sandbox's view. The package creates and resizes pools with the cloud's
// own SDK, as an autoscaler does, and reads the cloud as its owner. Both clouds implement Region. The types of each
// cloud hold the rest.
package region

import (
	"context"
	"crypto/tls"
	"net"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// Region is a simulated cloud.
type Region interface {
	// Serve answers on the listener until the context ends.
	Serve(ctx context.Context, l net.Listener) error
	// Close stops the running work, and waits for its end.
	Close()

	// MakePool creates a pool with these user data, and returns when its machines have power. An existing pool stays
	// unchanged.
	MakePool(ctx context.Context, spec pool.Spec, userData string) error
	// Pool is the state of a pool in the cloud; false while the cloud creates the pool.
	Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error)
	// Resize asks for another size, as an autoscaler does, and returns the old size. failed returns the reason once
	// the cloud has given up, or nil at the end of the work. failed is nil for a cloud that retries automatically.
	Resize(ctx context.Context, spec pool.Spec, nodes int64) (was int64, failed func(context.Context) error, err error)
	// Owns selects the current Nodes of a pool.
	Owns(spec pool.Spec) func(*corev1.Node) bool
	// Remove deletes a machine from its pool, as an autoscaler removes an idle node, and returns when the machine is
	// gone.
	Remove(ctx context.Context, m machine.Status) error
	// Snapshots are the names of all snapshots without an image, in no order.
	Snapshots(ctx context.Context) ([]string, error)
	// Versions that captures of a pool published, in no order; none for a pool without a capture.
	Versions(ctx context.Context, spec pool.Spec) ([]Version, error)
	// Instances of a pool, by the IDs of their machines.
	Instances(ctx context.Context, spec pool.Spec) ([]string, error)
	// Protected are the instances that the pool must not remove, because the instances are protected or in standby.
	Protected(ctx context.Context, spec pool.Spec) ([]string, error)
	// UpgradedByCloud are the running instances that the cloud rebuilt or replaced only because of their recipe.
	UpgradedByCloud() []string
	// Specs are the specs of the machines in the fleet.
	Specs() []fleet.Spec

	Requests() []requestlog.Request
	Stats() requestlog.Stats
	ResetStats()
	AddFault(f fault.Fault) (string, error)
	Faults() []fault.Fault
	ClearFaults(names ...string) error
}

// Version of a pool's image.
type Version struct {
	// Name is the version's name, such as "2026.03.14"; ID is the name in recipes.
	Name, ID string
	Tags     map[string]string
	// Disk is the content of the image.
	Disk fleet.DiskID
	// Complete: nodes can be built from the version.
	Complete bool
}

// Config is the configuration of every region.
type Config struct {
	// Dir holds the state.
	Dir     string
	Clock   clock.Clock
	Fleet   *machine.Fleet
	Facts   sandboxdir.Identity
	Servers sandboxdir.Servers
	// Certificate of the server.
	Certificate tls.Certificate
	// Record receives every request; nil drops them.
	Record *requestlog.Record
}
