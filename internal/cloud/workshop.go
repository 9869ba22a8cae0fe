package cloud

import (
	"context"
	"fmt"
	"strings"
)

// A capture by copy leaves its donor in service: the donor's disk is copied while it is in use, and the copy is cleaned on a
// workshop, which is thrown away. A copy of a disk in use holds the donor's secrets.

// WorkshopSpec describes a workshop: an instance outside its pool, built from the pool's present recipe. The pool stays
// unchanged. Callers save the spec before the first call, so that another process can end the workshop.
type WorkshopSpec struct {
	Pool PoolID
	// Name is the caller's name, unique for the capture and its attempt. The provider derives a legal resource name.
	Name string
	// InstanceType replaces the instance type of the recipe, in the words of the cloud; empty keeps it.
	InstanceType string
	// CustomData is as in TrialSpec; only PreflightWorkshop and EnsureWorkshop use it.
	CustomData []byte
	// Tags of the instance. TagPrototype, TagUID and TagCluster name the owner, and TagEndsAt the end.
	Tags map[string]string
	// Origin is set by Workshops of InCluster only.
	Origin Origin
}

// CopySpec describes the copy of a donor's disk as a further disk of a running instance: a workshop.
type CopySpec struct {
	// Name is the caller's name, unique for the capture and its attempt. The provider derives a legal resource name.
	Name string
	// Instance is the workshop's instance. The copy is made where the instance is.
	Instance InstanceID
	// SnapshotID is the ID of a complete snapshot. Only EnsureAttached uses the ID, until the copy exists.
	SnapshotID string
	// Tags of the copy, as of a workshop, and TagOrder.
	Tags map[string]string
	// Origin is set by Copies of InCluster only.
	Origin Origin
}

// DiskCopy is the state of a copy of a donor's disk.
type DiskCopy struct {
	// ID is the cloud's ID; empty if absent.
	ID string `json:"id,omitempty"`
	// State is Absent without a copy, Pending while the cloud makes, attaches or detaches the copy, and Complete
	// afterwards. State is Failed if the cloud gave up or the copy is gone, and Deleting during the deletion.
	State State `json:"state"`
	// IsAttached is true if the copy is a disk of its instance, so that the guest may write to it. A copy that is
	// Complete and not attached is a disk of no instance.
	IsAttached bool `json:"attached,omitempty"`
	// Device is how the guest finds the copy; empty unless IsAttached.
	Device DiskDevice `json:"device,omitzero"`
	// Error is the cloud's message if State is Failed.
	Error string `json:"error,omitempty"`
}

// DiskDevice is how a guest finds one of its disks. A guest must still prove that the disk is the expected one, because names
// of devices may be those of another disk.
type DiskDevice struct {
	// Serial is the serial number that the disk reports, as in `lsblk -o SERIAL`; empty if unknown. Guests on old
	// instance types see no serial number.
	Serial string `json:"serial,omitempty"`
	// Names are possible paths of the device for a guest that sees no serial number, the most probable first.
	Names []string `json:"names,omitempty"`
}

// IsZero reports whether nothing is known about the device.
func (d DiskDevice) IsZero() bool { return d.Serial == "" && len(d.Names) == 0 }

// CanCopy reports whether the provider supports captures by copy, without I/O.
func (p Provider) CanCopy() bool { return p.CanBuildWorkshops() && p.CanCopyDisks() }

// refuseUnowned returns an error for a copy of a disk in use, or its workshop, without an owner or an end: no sweep would find it.
func refuseUnowned(op, resource string, tags map[string]string, names ...string) error {
	var missing []string
	for _, name := range append([]string{TagUID, TagEndsAt}, names...) {
		if tags[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Op: op, Resource: resource, Message: fmt.Sprintf("the tags lack %s, and a copy of a disk in use holds secrets: "+
		"name the owner and the end", strings.Join(missing, ", "))}
}

// joinedMachines refuses snapshots of disks in use that no sweep would find.
type joinedMachines struct{ Machines }

// EnsureSnapshot implements Machines.
func (m joinedMachines) EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (Snapshot, error) {
	if spec.InUse {
		if err := refuseUnowned("copy the disk in use for", "snapshot "+spec.Name, spec.Tags, TagOrder); err != nil {
			return Snapshot{}, err
		}
	}
	return m.Machines.EnsureSnapshot(ctx, spec)
}

// joinedCopies refuses copies of disks in use that no sweep would find.
type joinedCopies struct{ DiskCopier }

// EnsureAttached implements DiskCopier.
func (c joinedCopies) EnsureAttached(ctx context.Context, spec CopySpec) (DiskCopy, error) {
	if err := refuseUnowned("attach", "copy "+spec.Name, spec.Tags, TagOrder); err != nil {
		return DiskCopy{}, err
	}
	return c.DiskCopier.EnsureAttached(ctx, spec)
}

// joinedWorkshops shows the versions of workshops, which only the ImageProvider knows.
type joinedWorkshops struct {
	WorkshopBuilder
	both *joined
}

// Workshop implements WorkshopBuilder.
func (w joinedWorkshops) Workshop(ctx context.Context, spec WorkshopSpec) (Trial, error) {
	have, err := w.WorkshopBuilder.Workshop(ctx, spec)
	return w.both.shown(spec.Pool, have), err
}

// EnsureWorkshop implements WorkshopBuilder.
func (w joinedWorkshops) EnsureWorkshop(ctx context.Context, spec WorkshopSpec) (Trial, error) {
	if err := refuseUnowned("build", "workshop "+spec.Name, spec.Tags); err != nil {
		return Trial{}, err
	}
	have, err := w.WorkshopBuilder.EnsureWorkshop(ctx, spec)
	return w.both.shown(spec.Pool, have), err
}

// Copies implements Versions.
func (j *joined) Copies(ctx context.Context, pools ...PoolID) ([]CopySpec, error) {
	families, err := j.familiesOf(ctx, pools)
	if err != nil {
		return nil, err
	}
	return j.disks.Copies(ctx, families...)
}

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
	return &Error{Kind: Unsupported, Op: op, Resource: resource, Message: "Kamino cannot capture by copy in this cloud: set settings.donor.method to InPlace"}
}
