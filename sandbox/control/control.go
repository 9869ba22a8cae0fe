// Package control is the interface to a running sandbox: the requests and answers of the kamino-sandbox verbs over a
// unix socket. The package decides the form of requests and answers. World implements the effects.
package control

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// Status describes a running sandbox.
type Status struct {
	Dir       string    `json:"dir"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
	TimeScale float64   `json:"timeScale"`
	API       string    `json:"api"`
	// Cloud is the simulated cloud, Endpoint its address.
	Cloud    pool.Cloud `json:"cloud"`
	Endpoint string     `json:"endpoint"`
}

// Machine is a machine of a running sandbox, with its Node.
type Machine struct {
	// Node is the name of the Node; empty before the machine has registered a Node.
	Node string `json:"node"`
	Pool string `json:"pool"`
	// Instance is the ID in the cloud.
	Instance string `json:"instance"`
	Power    string `json:"power"`
	// Ready is the Node's condition: "True", "False", "Unknown", or empty without a Node.
	Ready string `json:"ready"`
	// Image from which the machine was built.
	Image string `json:"image"`
	// Disk is the path of its root directory; empty for a light machine.
	Disk string `json:"disk,omitempty"`
	// MachineID is systemd's, from the disk; empty for a light machine, or before its first boot.
	MachineID string `json:"machineID,omitempty"`
	// State is a power state, "running", "booting" or "hung".
	State string `json:"state"`
	// Cordoned: the Node accepts no new pods.
	Cordoned bool `json:"cordoned,omitempty"`
	// Age is the age of the Node, in seconds.
	Age float64 `json:"age"`
}

// Pool is a pool with its state in the cloud.
type Pool struct {
	pool.Spec
	// Group is the cloud's name of the pool: the name of a scale set or of an Auto Scaling group.
	Group string `json:"group"`
	ID    string `json:"id"`
	// Capacity is the wanted size, Ready the number of Ready nodes.
	Capacity int64 `json:"capacity"`
	Ready    int   `json:"ready"`
	// Image of the pool's next node, and the extensions that run on the node before the join.
	Image      string   `json:"image"`
	Extensions []string `json:"extensions"`
}

// Event is a progress message of an order.
type Event struct {
	// Subject is the node or pool of the event.
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// Seconds of real time since the start of the order.
	Seconds float64 `json:"seconds"`
}

// Join shows how long a new node took, in real seconds since the order to grow.
type Join struct {
	Node string `json:"node"`
	// Registered is the time until the Node appeared, Ready the time until the Node was Ready.
	Registered float64 `json:"registered"`
	Ready      float64 `json:"ready"`
}

// Scale asks for a pool's new size.
type Scale struct {
	Nodes int64 `json:"nodes"`
	// Wait until all new nodes are Ready, and all surplus ones are gone.
	Wait bool `json:"wait"`
}

// Patch lists the packages that a patch installs.
type Patch struct {
	// Packages to bring to their next version, as "name" or "name=version"; none means kernel and all.
	Packages []string `json:"packages"`
	// Reboot afterwards, as step 1 of a real cluster does.
	Reboot bool `json:"reboot"`
}

// Spoil asks for a bad version.
type Spoil struct {
	// Version that gets the defect; empty means the next version of the pool.
	Version string `json:"version,omitempty"`
	disk.Defect
}

// Outage asks for an outage of the pod network in the whole cluster.
type Outage struct {
	What kubelet.NetworkOutage `json:"what"`
	// For is how long it lasts, in simulated time; 0 means until another order.
	For time.Duration `json:"for,omitempty"`
}

// World is a running sandbox. Methods with a report function call the function for each event, in order, and return at
// the end of the order. Nodes are named by the names of their Nodes.
type World interface {
	Status(ctx context.Context) (Status, error)
	Machines(ctx context.Context) ([]Machine, error)
	Pools(ctx context.Context) ([]Pool, error)

	Patch(ctx context.Context, node string, p Patch, report func(Event)) error
	Reboot(ctx context.Context, node string, report func(Event)) error
	// Age makes a node look as if nothing had happened to it for so much longer.
	Age(ctx context.Context, node string, by time.Duration, report func(Event)) error
	Crash(ctx context.Context, node string) error
	Hang(ctx context.Context, node string) error
	Unhang(ctx context.Context, node string) error
	// Spoil makes a version of a pool bad, and returns a sentence that names the version.
	Spoil(ctx context.Context, pool string, s Spoil) (string, error)
	Outage(ctx context.Context, o Outage) error

	Scale(ctx context.Context, pool string, s Scale, report func(Event)) ([]Join, error)
	Workload(ctx context.Context, report func(Event)) error

	AddFault(ctx context.Context, f fault.Fault) (string, error)
	Faults(ctx context.Context) ([]fault.Fault, error)
	ClearFaults(ctx context.Context, names []string) error
	Requests(ctx context.Context) ([]requestlog.Request, error)
	Stats(ctx context.Context) (requestlog.Stats, error)
	ResetStats(ctx context.Context) error

	// RequestStop orders the sandbox to stop, and does not wait.
	RequestStop(ctx context.Context) error
}
