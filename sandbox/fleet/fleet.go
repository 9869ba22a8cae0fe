// Package fleet is the line between the simulated cloud and the machines that it runs: the cloud
// simulator (package azure) orders machines and disks through it, package machine provides them.
package fleet

import "context"

// DiskID names a disk, a snapshot's or an image version's content: an ARM resource ID in lower case, or a
// platform image as "publisher:offer:sku:version".
type DiskID string

// Extension is a VM extension that runs on a machine before it joins.
type Extension struct {
	Name, Publisher, Type string
	Settings              map[string]any
	ProtectedSettings     map[string]any
}

// Spec describes a machine at its creation.
type Spec struct {
	// ID is the instance's ARM resource ID, in the case that the cloud reports.
	ID string
	// Pool is the scale set's name, ComputerName the host name that the cloud gives this instance.
	Pool, ComputerName string
	// ProviderID that its Node registers with: "azure://" + ID.
	ProviderID string
	// VMID is the platform's UUID of this VM.
	VMID string
	// Disk is the OS disk, already made by CopyDisk.
	Disk DiskID
	// CustomData is what cloud-init is given, decoded. Empty if the recipe has none.
	CustomData []byte
	Extensions []Extension
	// Image is the image reference that it was built from, for labels and logs.
	Image string
	Zone  string
	// Light asks for a machine without files: a Node, no disk.
	Light bool
}

// Power is a machine's power state.
type Power string

const (
	Off      Power = "off"
	Starting Power = "starting"
	On       Power = "on"
	Stopping Power = "stopping"
)

// Fleet runs machines. Its calls return when the work is done (in simulated time); the cloud simulator
// calls them from its long operations.
type Fleet interface {
	// CopyDisk makes dst with the content of src: a disk, a snapshot, an image version or a platform
	// image. An existing dst is replaced. Copying a running machine's disk copies it as it is.
	CopyDisk(ctx context.Context, dst, src DiskID) error
	// DeleteDisk removes a disk's content; nothing there is nil.
	DeleteDisk(ctx context.Context, id DiskID) error
	// Launch makes the machine and powers it on; it returns once the power is on, the boot goes on by itself.
	Launch(ctx context.Context, spec Spec) error
	// PowerOn boots a machine that is off; on one that is on it does nothing.
	PowerOn(ctx context.Context, id string) error
	// PowerOff stops a machine: in order, or at once when hard.
	PowerOff(ctx context.Context, id string, hard bool) error
	// Power tells the state now; a machine may power itself off.
	Power(id string) Power
	// Terminate powers off and forgets the machine and its Node's kubelet; the Node object is removed as
	// a cloud's node lifecycle controller would, unless the fleet was told that none runs. The disk stays until DeleteDisk.
	Terminate(ctx context.Context, id string) error
	// Reimage replaces the machine's disk by src and boots it anew with the spec's recipe.
	Reimage(ctx context.Context, spec Spec) error
}
