package offline

import (
	"context"

	"github.com/kamino-dev/kamino/internal/agent/scan"
)

// Kernel is what a run asks of the kernel with the device.
type Kernel interface {
	// Mounts reports whether devices are mounted, so that the program must be in a mount namespace of its own: see Enclose.
	Mounts() bool
	// Open finds the root of the copy on d.Device. A *generalize.Refused says why the device is no copy that can be cleaned; nothing was
	// changed.
	Open(d Disk) (Device, error)
}

// Device is an open device with the copy of a disk.
type Device interface {
	// Root names the partition and the file system of the root.
	Root() string
	// Mounted mounts the root for prove, and then all file systems of the copy for work, each with the directory of the root. It replays
	// journals, and wipes swap afterwards. Nothing is mounted when it returns.
	Mounted(ctx context.Context, prove, work func(root string) error) error
	// Trim leaves no data in the free blocks.
	Trim(ctx context.Context) error
	// Check returns a *DiscardError if a file system is not clean.
	Check(ctx context.Context) error
	// Search calls search with the path of the raw device, when nothing else uses the device.
	Search(ctx context.Context, search func(image string) (*scan.Report, error)) (*scan.Report, error)
	Close() error
}
