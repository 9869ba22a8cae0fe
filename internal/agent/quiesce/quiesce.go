package quiesce

import (
	"context"
	"time"
)

// Freeze modes.
const (
	// Auto freezes the root file system if the host can guard the freeze, and flushes it twice otherwise.
	Auto Mode = "Auto"
	// Never flushes the root file system twice, and does not freeze it.
	Never Mode = "Never"
)

// Mode says whether a run freezes the root file system.
type Mode string

// DefaultWait is how long a run waits until the node is quiet.
const DefaultWait = 10 * time.Minute

// Donor is a running node, and the order to quiesce it.
type Donor struct {
	// Root is the directory with the host's root.
	Root string
	// Name of the nonce file, which is the UID of the order, and its content. See CheckNonce.
	Name, Nonce string
	// Freeze is Auto if empty.
	Freeze Mode
	// Wait is how long to wait until the node is quiet; DefaultWait if zero.
	Wait time.Duration
	// Begin is called each time the node is quiet, before anything is changed. It waits until the copy may begin; nil does not
	// wait.
	Begin func(ctx context.Context) error
	// Kernel is the host's kernel: Linux.
	Kernel Kernel
	// Now is the clock, and Sleep waits or returns the context's error.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// State is what a run has come to before its end.
type State struct {
	// Waiting is what the run waits for, in a sentence; empty for the moment in which the copy may be taken.
	Waiting string
	// Frozen means that the root file system is frozen now. Otherwise it has been flushed just before, and NotFrozen says
	// why there is no freeze; empty if none was wanted.
	Frozen    bool
	NotFrozen string
}

// Result is how the moment of the copy ended, and what the copy must have.
type Result struct {
	// InTime means that the copy was accepted while the root file system was frozen, or before anything disturbed its last
	// flush. Only then the copy can be used. Late says why it was not in time.
	InTime bool
	Late   string
	// Frozen means that the root file system was frozen, and FrozenFor is how long writers stood at the most.
	Frozen    bool
	FrozenFor time.Duration
	// NotFrozen says why there was no freeze; empty if none was wanted.
	NotFrozen string
	Disk
}

// Disk identifies a running disk. A copy has the same values.
type Disk struct {
	// BootID of the running host, and its machine ID.
	BootID, MachineID string
	// RootUUID of the root file system, FileSystem is its type, and RootDevice its device, such as /dev/nvme0n1p1.
	RootUUID, FileSystem, RootDevice string

	// beside are the mount points of the boot loader's partitions on the same disk.
	beside []string
}
