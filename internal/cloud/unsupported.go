package cloud

import "context"

// NoWorkshops implements WorkshopBuilder for a provider without workshops.
type NoWorkshops struct{}

// CanBuildWorkshops implements WorkshopBuilder.
func (NoWorkshops) CanBuildWorkshops() bool { return false }

// PreflightWorkshop implements WorkshopBuilder.
func (NoWorkshops) PreflightWorkshop(_ context.Context, spec WorkshopSpec) ([]Refusal, error) {
	return nil, noCopy("build", "workshop "+spec.Name)
}

// Workshop implements WorkshopBuilder.
func (NoWorkshops) Workshop(context.Context, WorkshopSpec) (Trial, error) { return Trial{}, nil }

// Workshops implements WorkshopBuilder.
func (NoWorkshops) Workshops(context.Context, ...PoolID) ([]WorkshopSpec, error) { return nil, nil }

// EnsureWorkshop implements WorkshopBuilder.
func (NoWorkshops) EnsureWorkshop(_ context.Context, spec WorkshopSpec) (Trial, error) {
	return Trial{}, noCopy("build", "workshop "+spec.Name)
}

// EndWorkshop implements WorkshopBuilder.
func (NoWorkshops) EndWorkshop(context.Context, WorkshopSpec) (State, error) { return Absent, nil }

// NoCopies implements DiskCopier, and Copies of ImageStore, for a provider that copies no disks in use.
type NoCopies struct{}

// CanCopyDisks implements DiskCopier.
func (NoCopies) CanCopyDisks() bool { return false }

// CopiesOnRequest implements DiskCopier.
func (NoCopies) CopiesOnRequest() bool { return false }

// Copy implements DiskCopier.
func (NoCopies) Copy(context.Context, CopySpec) (DiskCopy, error) { return DiskCopy{}, nil }

// Copies implements ImageStore.
func (NoCopies) Copies(context.Context, ...ImageFamily) ([]CopySpec, error) { return nil, nil }

// EnsureAttached implements DiskCopier.
func (NoCopies) EnsureAttached(_ context.Context, spec CopySpec) (DiskCopy, error) {
	return DiskCopy{}, noCopy("attach", "copy "+spec.Name)
}

// EnsureDetached implements DiskCopier.
func (NoCopies) EnsureDetached(context.Context, CopySpec) (DiskCopy, error) { return DiskCopy{}, nil }

// EnsureCopySnapshot implements DiskCopier.
func (NoCopies) EnsureCopySnapshot(_ context.Context, spec CopySpec, _ SnapshotSpec) (Snapshot, error) {
	return Snapshot{}, noCopy("make a snapshot of", "copy "+spec.Name)
}

// EndCopy implements DiskCopier.
func (NoCopies) EndCopy(context.Context, CopySpec) (State, error) { return Absent, nil }

func noCopy(op, resource string) error {
	return &Error{Kind: Unsupported, Op: op, Resource: resource, Message: "Kamino cannot capture by copy in this cloud: capture the node in place"}
}
