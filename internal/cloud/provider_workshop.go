package cloud

import (
	"context"
	"fmt"
	"strings"
)

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
