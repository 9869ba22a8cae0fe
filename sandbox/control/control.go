// Package control is how a person looks at and troubles a running sandbox: the words that the verbs of
// kamino-sandbox and the running process exchange over a unix socket. It decides the form of orders and
// answers; what they do is the World's business.
package control

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/sandbox/book"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// Status describes a running sandbox.
type Status struct {
	Dir       string    `json:"dir"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
	TimeScale float64   `json:"timeScale"`
	API       string    `json:"api"`
	// Cloud is the one that is simulated, Endpoint where it answers.
	Cloud    pool.Cloud `json:"cloud"`
	Endpoint string     `json:"endpoint"`
}

// Machine is one machine of a running sandbox and its Node.
type Machine struct {
	// Node is the Node's name; empty before the machine has registered one.
	Node string `json:"node"`
	Pool string `json:"pool"`
	// Instance is the cloud's ID of it.
	Instance string `json:"instance"`
	Power    string `json:"power"`
	// Ready is the Node's condition: "True", "False", "Unknown", or empty without a Node.
	Ready string `json:"ready"`
	// Image that it was built from.
	Image string `json:"image"`
	// Disk is the path of its root directory; empty for a light machine.
	Disk string `json:"disk,omitempty"`
	// MachineID is systemd's, from the disk; empty for a light machine, or before its first boot.
	MachineID string `json:"machineID,omitempty"`
	// State says what it does, such as "running" or "hung".
	State string `json:"state"`
	// Cordoned tells that its Node takes no new pods.
	Cordoned bool `json:"cordoned,omitempty"`
	// Age is how long ago its Node was made, in seconds.
	Age float64 `json:"age"`
}

// Pool is a pool and what the cloud says of it.
type Pool struct {
	pool.Spec
	// Group is what the pool is called in its cloud: a scale set's name, or an Auto Scaling group's.
	Group string `json:"group"`
	ID    string `json:"id"`
	// Capacity is the size that it is meant to have, Ready how many of its nodes are.
	Capacity int64 `json:"capacity"`
	Ready    int   `json:"ready"`
	// Image that its next node is built from, and the extensions that run on it before it joins.
	Image      string   `json:"image"`
	Extensions []string `json:"extensions"`
}

// Event is one thing that happened while an order was carried out.
type Event struct {
	// Subject is what it happened to: a node or a pool.
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// Seconds since the order was given; real ones.
	Seconds float64 `json:"seconds"`
}

// Join is how a new node came to be Ready, in real seconds since the pool was told to grow.
type Join struct {
	Node string `json:"node"`
	// Registered is when its Node appeared, Ready when that was Ready.
	Registered float64 `json:"registered"`
	Ready      float64 `json:"ready"`
}

// Scale asks for a pool's new size.
type Scale struct {
	Nodes int64 `json:"nodes"`
	// Wait until all new nodes are Ready, and all surplus ones are gone.
	Wait bool `json:"wait"`
}

// Patch says what patching a machine installs.
type Patch struct {
	// Packages to bring to their next version, as "name" or "name=version"; none means kernel and all.
	Packages []string `json:"packages"`
	// Reboot afterwards, as step 1 of a real cluster does.
	Reboot bool `json:"reboot"`
}

// Spoil asks for a bad version.
type Spoil struct {
	// Version that is meant; empty means the next one that is made for the pool.
	Version string `json:"version,omitempty"`
	disk.Defect
}

// Outage asks for one of the pod network in the whole cluster.
type Outage struct {
	What kubelet.Outage `json:"what"`
	// For is how long it lasts, in simulated time; 0 means until another order.
	For time.Duration `json:"for,omitempty"`
}

// World is a running sandbox. Methods that take a tell function call it with each thing that happens, in
// order, and return when the order is carried out. A node is named by its Node's name.
type World interface {
	Status(ctx context.Context) (Status, error)
	Machines(ctx context.Context) ([]Machine, error)
	Pools(ctx context.Context) ([]Pool, error)

	Patch(ctx context.Context, node string, p Patch, tell func(Event)) error
	Reboot(ctx context.Context, node string, tell func(Event)) error
	// Age makes a node look as if nothing had happened to it for so much longer.
	Age(ctx context.Context, node string, by time.Duration, tell func(Event)) error
	Crash(ctx context.Context, node string) error
	Hang(ctx context.Context, node string) error
	Unhang(ctx context.Context, node string) error
	// Spoil makes a version of a pool bad, and says which.
	Spoil(ctx context.Context, pool string, s Spoil) (string, error)
	Outage(ctx context.Context, o Outage) error

	Scale(ctx context.Context, pool string, s Scale, tell func(Event)) ([]Join, error)
	Workload(ctx context.Context, tell func(Event)) error

	AddFault(ctx context.Context, f fault.Fault) (string, error)
	Faults(ctx context.Context) ([]fault.Fault, error)
	ClearFaults(ctx context.Context, names []string) error
	Requests(ctx context.Context) ([]book.Request, error)
	Stats(ctx context.Context) (book.Stats, error)
	ResetStats(ctx context.Context) error

	// RequestStop asks the sandbox to end. It returns before it has.
	RequestStop(ctx context.Context) error
}
