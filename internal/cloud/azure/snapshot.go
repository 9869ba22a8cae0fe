package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// snapshotRef names a snapshot in the pool's resource group.
type snapshotRef struct {
	scaleSet
	// name from the caller.
	name string
}

func (r snapshotRef) resource() string { return snapshotName(r.name) }

func (r snapshotRef) id() string {
	return r.scope() + "/providers/Microsoft.Compute/snapshots/" + r.resource()
}

func (r snapshotRef) String() string { return "snapshot " + r.resource() }

// Snapshot implements cloud.ImageProvider.
func (p *ImageProvider) Snapshot(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
	ref, err := p.parse(id)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	return p.snapshot(ctx, snapshotRef{ref.scaleSet, name})
}

func (p *account) snapshot(ctx context.Context, ref snapshotRef) (cloud.Snapshot, error) {
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	got, err := clients.snapshots.Get(ctx, ref.group, ref.resource(), nil)
	if isNotFound(err) {
		p.traits.Delete(strings.ToLower(ref.id()))
		return cloud.Snapshot{Name: ref.name}, nil
	}
	if err != nil {
		return cloud.Snapshot{}, fail("read", ref, err)
	}
	out := cloud.Snapshot{
		Name:  ref.name,
		ID:    ref.id(), // Azure varies the case
		State: snapshotState(got.Properties),
		Tags:  tagsOf(got.Tags),
	}
	if out.State == cloud.Complete {
		p.traits.Store(strings.ToLower(ref.id()), traitsOfSnapshot(got.Snapshot))
	}
	if out.State == cloud.Failed {
		if copied := got.Properties.CopyCompletionError; copied != nil {
			out.Error = withCode(string(value(copied.ErrorCode)), oneLine(value(copied.ErrorMessage)))
		}
		if out.Error == "" {
			out.Error = p.reason(ctx, ref.id())
		}
		if out.Error == "" {
			out.Error = "Azure gave no reason: see the activity log of the snapshot"
		}
	}
	return out, nil
}

// snapshotState returns a snapshot's state. A background copy (Premium SSD v2, Ultra disks) has a percentage below 100.
// Every other snapshot is usable at once.
func snapshotState(properties *armcompute.SnapshotProperties) cloud.State {
	if properties == nil {
		return cloud.Pending
	}
	switch strings.ToLower(value(properties.ProvisioningState)) {
	case "failed", "canceled":
		return cloud.Failed
	case "deleting":
		return cloud.Deleting
	case "succeeded", "updating":
	default:
		return cloud.Pending
	}
	if properties.CopyCompletionError != nil {
		return cloud.Failed
	}
	if properties.CompletionPercent != nil && *properties.CompletionPercent < 100 {
		return cloud.Pending
	}
	return cloud.Complete
}

// EnsureSnapshot implements cloud.ImageProvider. Snapshots are incremental and fast. Generation, architecture, security
// type and encryption come from the disk.
func (p *ImageProvider) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	owner, err := p.parse(spec.Instance)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	ref := snapshotRef{owner.scaleSet, spec.Name}
	found, err := p.snapshot(ctx, ref)
	if err != nil || found.State != cloud.Absent {
		return found, err
	}
	vm, err := p.vm(ctx, owner)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	disk := osDisk(vm)
	if disk == "" {
		return cloud.Snapshot{}, &cloud.Error{Kind: cloud.Unsupported, Op: "make", Resource: ref.String(),
			Message: fmt.Sprintf("%s has no managed OS disk: only managed disks can be copied", owner)}
	}
	return p.createSnapshot(ctx, ref, spec, vm.Location, disk)
}

// createSnapshot starts a snapshot of a disk. The snapshot of a disk in use holds secrets, so that no one can export it.
func (p *account) createSnapshot(ctx context.Context, ref snapshotRef, spec cloud.SnapshotSpec, location *string, disk string) (cloud.Snapshot, error) {
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	properties := &armcompute.SnapshotProperties{
		Incremental:  to.Ptr(true),
		CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: to.Ptr(disk)},
	}
	if spec.InUse {
		properties.NetworkAccessPolicy = to.Ptr(armcompute.NetworkAccessPolicyDenyAll)
		properties.PublicNetworkAccess = to.Ptr(armcompute.PublicNetworkAccessDisabled)
	}
	if err := spec.Begin(ctx); err != nil {
		return cloud.Snapshot{}, err
	}
	poller, err := clients.snapshots.BeginCreateOrUpdate(ctx, ref.group, ref.resource(), armcompute.Snapshot{
		Location: location, Tags: toTags(spec.Tags), SKU: &armcompute.SnapshotSKU{Name: to.Ptr(armcompute.SnapshotStorageAccountTypesStandardLRS)},
		Properties: properties,
	}, nil)
	if err != nil {
		return cloud.Snapshot{}, fail("make", ref, err)
	}
	rememberOperation(p, ref.id(), poller)
	return cloud.Snapshot{Name: ref.name, ID: ref.id(), State: cloud.Pending, Taken: spec.InUse, Tags: tagsOf(toTags(spec.Tags))}, nil
}

// DeleteSnapshot implements cloud.ImageProvider.
func (p *ImageProvider) DeleteSnapshot(ctx context.Context, id cloud.InstanceID, name string) error {
	owner, err := p.parse(id)
	if err != nil {
		return err
	}
	ref := snapshotRef{owner.scaleSet, name}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return err
	}
	poller, err := clients.snapshots.BeginDelete(ctx, ref.group, ref.resource(), nil)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fail("delete", ref, err)
	}
	rememberOperation(p.account, ref.id(), poller)
	return nil
}
