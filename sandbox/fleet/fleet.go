// Package fleet is the interface between the simulated cloud and its machines. The cloud simulator (packages azure
// and aws) orders machines and disks. Package machine provides both.
package fleet

import (
	"context"
	"time"
)

// DiskID names a disk, a snapshot's or an image version's content: an ARM resource ID in lower case, or a
// platform image as "publisher:offer:sku:version".
type DiskID string

// Extension is a VM extension that runs on a machine before the join.
type Extension struct {
	Name, Publisher, Type string
	Settings              map[string]any
	ProtectedSettings     map[string]any
}

// Spec describes a new machine.
type Spec struct {
	// ID is the instance's ARM resource ID, in the case that the cloud reports.
	ID string
	// Pool is the name of the scale set, ComputerName the host name of the instance.
	Pool, ComputerName string
	// ProviderID of the Node: "azure://" + ID.
	ProviderID string
	// VMID is the platform's UUID of the VM.
	VMID string
	// Disk is the OS disk, already made by CopyDisk.
	Disk DiskID
	// CustomData for cloud-init, decoded. Empty if the recipe has no customData.
	CustomData []byte
	Extensions []Extension
	// Image is the image reference of the machine, for labels and logs.
	Image string
	Zone  string
	// Waited is the simulated time from the request to the cloud until the launch.
	Waited time.Duration
	// ReadRate is how fast a new disk is read for the first time, in MiB/s: the cloud loads its content from a snapshot. 0: at full speed.
	ReadRate int64
	// Type is the instance type; empty for the usual one of the cloud.
	Type string
	// Light asks for a machine without files: a Node, no disk.
	Light bool
}

// Blank is the source of a disk without content.
const Blank DiskID = ""

// Further is a further disk of a machine.
type Further struct {
	Disk   DiskID `json:"disk"`
	Serial string `json:"serial"`
}

// Power is a machine's power state.
type Power string

const (
	Off      Power = "off"
	Starting Power = "starting"
	On       Power = "on"
	Stopping Power = "stopping"
)

// Fleet runs machines. Calls return at the end of the work, in simulated time. The cloud simulator calls a Fleet in
// long operations.
type Fleet interface {
	// CopyDisk makes dst with the content of src: a disk, a snapshot, an image version or a platform
	// image; empty of Blank. An existing dst is replaced. The copy of a running machine's disk holds what the machine has flushed.
	CopyDisk(ctx context.Context, dst, src DiskID) error
	// DeleteDisk removes a disk's content; nothing there is nil.
	DeleteDisk(ctx context.Context, id DiskID) error
	// Launch creates a machine and returns when the power is on, during the boot.
	Launch(ctx context.Context, spec Spec) error
	// PowerOn boots a machine. A running machine stays unchanged.
	PowerOn(ctx context.Context, id string) error
	// PowerOff stops a machine: in order, or at once when hard.
	PowerOff(ctx context.Context, id string, hard bool) error
	// Power returns the current state; a machine may power off on its own.
	Power(id string) Power
	// Console returns the end of the machine's serial console, of all its boots. Text is empty without a console.
	Console(id string) string
	// Terminate powers the machine off, and removes machine and kubelet. The fleet also removes the Node, as a cloud's node
	// lifecycle controller does, unless configured otherwise. The disk stays until DeleteDisk.
	Terminate(ctx context.Context, id string) error
	// Attach gives a machine a further disk with a serial number, also while the machine runs. A machine that boots with a further
	// disk with a root boots from this disk: both roots may have the same labels and UUIDs, and the firmware may choose either.
	Attach(ctx context.Context, id string, disk DiskID, serial string) error
	// Detach takes a further disk from a machine. Neither a missing machine nor a missing disk is an error.
	Detach(ctx context.Context, id string, disk DiskID) error
	// Reimage replaces the machine's disk by src and boots the machine with the spec's recipe.
	Reimage(ctx context.Context, spec Spec) error
}
