package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A copy of a donor's disk is a managed disk from a snapshot of the donor's OS disk, in the resource group and the zone of its
// workshop. Snapshot and disk hold the donor's secrets, so that neither can be exported.

const (
	opAttach = "attach"
	// copyTag is the caller's name of a copy, and copyOnTag the scale set and number of its workshop.
	copyTag, copyOnTag = "kamino-copy-name", "kamino-copy-on"
	// maxTagValue is the longest value of a tag. Source: Azure Resource Manager, "Use tags to organize your Azure resources".
	maxTagValue = 256
)

// copyRef names a copy in the resource group of its workshop.
type copyRef struct {
	scaleSet
	// name from the caller.
	name string
}

func (r copyRef) resource() string { return shorten("copy_" + plainName(r.name)) }

func (r copyRef) id() string { return r.scope() + "/providers/Microsoft.Compute/disks/" + r.resource() }

func (r copyRef) String() string { return "copy " + r.resource() }

// error is an error about the copy.
func (r copyRef) error(kind cloud.Kind, op, format string, args ...any) error {
	return &cloud.Error{Kind: kind, Op: op, Resource: r.String(), Message: fmt.Sprintf(format, args...)}
}

// copyState is what Azure shows of a copy and its workshop.
type copyState struct {
	ref copyRef
	at  instance
	// disk is nil without a copy, and vm is nil without the instance.
	disk *armcompute.Disk
	vm   *armcompute.VirtualMachineScaleSetVM
}

// copier implements cloud.DiskCopier, and Copies of cloud.ImageStore.
type copier struct {
	*account
	parse func(cloud.InstanceID) (instance, error)
}

// CanCopyDisks implements cloud.ImageProvider.
func (p copier) CanCopyDisks() bool { return true }

// Copy implements cloud.ImageProvider.
func (p copier) Copy(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	s, err := p.readCopy(ctx, spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	return p.diskCopy(ctx, s), nil
}

// readCopy reads a copy, and its instance if there is a copy.
func (p copier) readCopy(ctx context.Context, spec cloud.CopySpec) (s copyState, err error) {
	if s.at, err = p.parse(spec.Instance); err != nil {
		return s, err
	}
	s.ref = copyRef{s.at.scaleSet, spec.Name}
	clients, err := p.in(s.at.scaleSet)
	if err != nil {
		return s, err
	}
	got, err := clients.disks.Get(ctx, s.ref.group, s.ref.resource(), nil)
	switch {
	case isNotFound(err):
		return s, nil
	case err != nil:
		return s, fail("read", s.ref, err)
	case tagIn(tagsOf(got.Tags), copyTag) != tagValue(spec.Name):
		return s, s.ref.error(cloud.Conflict, "read", "tag %s does not name the copy: rename or delete the disk manually", copyTag)
	}
	s.disk = &got.Disk
	vm, err := p.vm(ctx, s.at)
	if err == nil {
		s.vm = &vm
	} else if cloud.Is(err, cloud.NotFound) {
		err = nil
	}
	return s, err
}

// tagValue shortens a value of a tag.
func tagValue(name string) string { return name[:min(len(name), maxTagValue)] }

// entry returns the copy among the data disks of its instance; nil if it is none. Azure shows a disk there from the begin of the
// attachment to the begin of the detachment.
func (s copyState) entry() *armcompute.DataDisk {
	if s.vm == nil || s.vm.Properties == nil || s.vm.Properties.StorageProfile == nil {
		return nil
	}
	for _, d := range s.vm.Properties.StorageProfile.DataDisks {
		if d != nil && d.ManagedDisk != nil && strings.EqualFold(value(d.ManagedDisk.ID), s.ref.id()) && !value(d.ToBeDetached) {
			return d
		}
	}
	return nil
}

// isElsewhere reports whether the copy is a disk of another instance.
func (s copyState) isElsewhere() bool {
	owner := value(s.disk.ManagedBy)
	return owner != "" && !strings.EqualFold(owner, strings.TrimPrefix(string(s.at.providerID()), providerPrefix))
}

// vmState returns the provisioning state of the instance.
func (s copyState) vmState() string {
	if s.vm == nil || s.vm.Properties == nil {
		return ""
	}
	return value(s.vm.Properties.ProvisioningState)
}

// diskCopy returns the state of a copy.
func (p copier) diskCopy(ctx context.Context, s copyState) cloud.DiskCopy {
	id := s.ref.id()
	switch {
	case s.disk == nil && p.contains(p.copies, id):
		return cloud.DiskCopy{ID: id, State: cloud.Failed, Error: "the disk is gone: another client deleted it"}
	case s.disk == nil:
		return cloud.DiskCopy{}
	case s.disk.Properties == nil:
		return cloud.DiskCopy{ID: id, State: cloud.Pending}
	}
	out := cloud.DiskCopy{ID: id, IsAttached: value(s.disk.ManagedBy) != ""}
	switch strings.ToLower(value(s.disk.Properties.ProvisioningState)) {
	case "deleting":
		out.State = cloud.Deleting
	case "failed", "canceled":
		if out.State, out.Error = cloud.Failed, p.reason(ctx, id); out.Error == "" {
			out.Error = noReason
		}
	case "succeeded":
		out.State, out.Error = s.attachmentState()
		if entry := s.entry(); entry != nil && out.IsAttached {
			out.Device = deviceAt(value(entry.Lun))
		}
	default:
		out.State = cloud.Pending
	}
	return out
}

// attachmentState returns the state of a made disk, which Azure fills, attaches and detaches in the background.
func (s copyState) attachmentState() (_ cloud.State, trouble string) {
	filled, listed, attached := s.disk.Properties.CompletionPercent, s.entry() != nil, value(s.disk.ManagedBy) != ""
	switch {
	case filled != nil && *filled < 100:
	case !listed && !attached, s.isElsewhere(), listed && attached && !changing(s.vmState()):
		return cloud.Complete, ""
	case listed && !attached && strings.EqualFold(s.vmState(), "Failed"):
		return cloud.Failed, troubleOfVM(*s.vm)
	}
	return cloud.Pending, ""
}

// deviceAt returns how a guest finds the disk at a LUN. No name or ID of Azure is visible in the guest. Source: the udev rules of
// azure-vm-utils and of the Azure Linux Agent.
func deviceAt(lun int32) cloud.DiskDevice {
	n := strconv.Itoa(int(lun))
	return cloud.DiskDevice{Serial: cloud.SerialOfLUN(int(lun)), Names: []string{"/dev/disk/azure/scsi1/lun" + n, "/dev/disk/azure/data/by-lun/" + n}}
}

// EnsureAttached implements cloud.ImageProvider.
func (p copier) EnsureAttached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	ctx = cloud.WithoutReadCache(ctx)
	s, err := p.readCopy(ctx, spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	have := p.diskCopy(ctx, s)
	switch {
	case s.disk != nil && s.isElsewhere():
		return cloud.DiskCopy{}, s.ref.error(cloud.Conflict, opAttach, "the copy is a disk of %s, not of %s: detach the copy first",
			value(s.disk.ManagedBy), s.at)
	case have.IsAttached || have.State != cloud.Absent && have.State != cloud.Complete:
		return have, nil
	case s.vm == nil:
		vm, err := p.vm(ctx, s.at)
		if err != nil {
			return cloud.DiskCopy{}, err
		}
		s.vm = &vm
	}
	if power := powerOf(*s.vm); power != cloud.PowerRunning || beingDeleted(*s.vm) {
		return cloud.DiskCopy{}, s.ref.error(cloud.Conflict, opAttach, "%s is %s, not running: at its next boot it could boot from the copy", s.at, power)
	}
	if s.disk == nil {
		return p.makeCopy(ctx, s, spec)
	}
	return p.attachCopy(ctx, s)
}

// makeCopy makes the disk. Its name makes repeated calls make one disk. A disk in a zone is for VMs of this zone only. The type of
// the disk suits each VM size.
func (p copier) makeCopy(ctx context.Context, s copyState, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	group, name, ok := groupAndName(spec.SnapshotID, "snapshots")
	if !ok {
		return cloud.DiskCopy{}, s.ref.error(cloud.Invalid, opAttach, "%q is not the ID of a snapshot", spec.SnapshotID)
	}
	clients, err := p.in(s.ref.scaleSet)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	from, err := clients.snapshots.Get(ctx, group, name, nil)
	switch {
	case err != nil:
		return cloud.DiskCopy{}, fail(opAttach, text("snapshot "+name), err)
	case snapshotState(from.Properties) != cloud.Complete:
		return cloud.DiskCopy{}, s.ref.error(cloud.Conflict, opAttach, "snapshot %s is %s, not complete", name, snapshotState(from.Properties))
	}
	tags := toTags(spec.Tags)
	tags[copyTag], tags[copyOnTag] = to.Ptr(tagValue(spec.Name)), to.Ptr(path.Join(s.at.name, s.at.number))
	made := armcompute.Disk{
		Location: s.vm.Location, Zones: s.vm.Zones, Tags: tags, SKU: &armcompute.DiskSKU{Name: to.Ptr(armcompute.DiskStorageAccountTypesStandardSSDLRS)},
		Properties: &armcompute.DiskProperties{
			CreationData:        &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: to.Ptr(spec.SnapshotID)},
			NetworkAccessPolicy: to.Ptr(armcompute.NetworkAccessPolicyDenyAll), PublicNetworkAccess: to.Ptr(armcompute.PublicNetworkAccessDisabled),
		},
	}
	if key := from.Properties.Encryption; key != nil && value(key.DiskEncryptionSetID) != "" {
		made.Properties.Encryption = &armcompute.Encryption{DiskEncryptionSetID: key.DiskEncryptionSetID, Type: key.Type}
	}
	poller, err := clients.disks.BeginCreateOrUpdate(ctx, s.ref.group, s.ref.resource(), made, nil)
	if err != nil {
		return cloud.DiskCopy{}, fail("make", s.ref, err)
	}
	rememberOperation(p.account, s.ref.id(), poller)
	p.add(p.copies, s.ref.id())
	return cloud.DiskCopy{ID: s.ref.id(), State: cloud.Pending}, nil
}

// attachCopy attaches a free disk to a running instance, without the host's cache: what the guest has flushed is on the disk. The
// action changes no other disk, as a write of the instance could.
func (p copier) attachCopy(ctx context.Context, s copyState) (cloud.DiskCopy, error) {
	if trouble := p.reason(ctx, s.attachment()); trouble != "" {
		p.forget(s.attachment()) // the next call tries again
		return cloud.DiskCopy{}, s.ref.error(cloud.Unavailable, opAttach, "Azure could not attach the disk to %s: %s", s.at, trouble)
	}
	err := p.changeDisks(ctx, s, armcompute.AttachDetachDataDisksRequest{DataDisksToAttach: []*armcompute.DataDisksToAttach{{
		DiskID: to.Ptr(s.ref.id()), Lun: to.Ptr(s.freeLUN()), Caching: to.Ptr(armcompute.CachingTypesNone),
		DeleteOption: to.Ptr(armcompute.DiskDeleteOptionTypesDetach),
	}}})
	var refused *cloud.Error
	switch errors.As(p.lost(ctx, s, true, fail(opAttach, s.ref, err)), &refused); {
	case refused == nil:
	case strings.EqualFold(refused.Code, "AttachDiskWhileBeingDetached"): // Azure shows the disk as free too early
	case strings.Contains(refused.Message, "maximum number of data disks"):
		return cloud.DiskCopy{}, s.ref.error(cloud.QuotaExceeded, opAttach,
			"%s has no room for another disk: name a larger VM size in settings.donor.workshopType (%s)", s.at, refused.Message)
	default:
		return cloud.DiskCopy{}, refused
	}
	return cloud.DiskCopy{ID: s.ref.id(), State: cloud.Pending}, nil
}

// attachment is the key of the operation that attaches the copy.
func (s copyState) attachment() string { return s.ref.id() + "/attachment" }

// freeLUN returns the lowest free LUN of the instance.
func (s copyState) freeLUN() (lun int32) {
	taken := map[int32]bool{}
	if p := s.vm.Properties; p != nil && p.StorageProfile != nil {
		for _, d := range p.StorageProfile.DataDisks {
			taken[value(d.Lun)] = true
		}
	}
	for taken[lun] {
		lun++
	}
	return lun
}

// changeDisks attaches or detaches data disks of the instance.
func (p copier) changeDisks(ctx context.Context, s copyState, change armcompute.AttachDetachDataDisksRequest) error {
	clients, err := p.in(s.at.scaleSet)
	if err != nil {
		return err
	}
	if s.at.isStandalone() {
		poller, err := clients.machines.BeginAttachDetachDataDisks(ctx, s.at.group, s.at.number, change, nil)
		if err == nil {
			rememberOperation(p.account, s.attachment(), poller)
		}
		return err
	}
	poller, err := clients.instances.BeginAttachDetachDataDisks(ctx, s.at.group, s.at.name, s.at.number, change, nil)
	if err == nil {
		rememberOperation(p.account, s.attachment(), poller)
	}
	return err
}

// EnsureDetached implements cloud.ImageProvider. It never forces: a forced detachment may lose writes of the guest.
func (p copier) EnsureDetached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	s, err := p.readCopy(cloud.WithoutReadCache(ctx), spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	have := p.diskCopy(ctx, s)
	if have.State != cloud.Complete || !have.IsAttached || s.isElsewhere() {
		return have, nil
	}
	have.State = cloud.Pending
	return have, p.detach(ctx, s)
}

// detach starts to detach a copy. A missing instance has no disks.
func (p copier) detach(ctx context.Context, s copyState) error {
	err := p.changeDisks(ctx, s, armcompute.AttachDetachDataDisksRequest{DataDisksToDetach: []*armcompute.DataDisksToDetach{{DiskID: to.Ptr(s.ref.id())}}})
	if isNotFound(err) {
		return nil
	}
	return p.lost(ctx, s, false, fail("detach", s.ref, err))
}

// lost returns the error of a change of disks, unless an earlier try, whose answer was lost, made the change.
func (p copier) lost(ctx context.Context, s copyState, attach bool, err error) error {
	if !cloud.Is(err, cloud.Conflict) && !cloud.Is(err, cloud.Invalid) {
		return err
	}
	now, failed := p.readCopy(ctx, cloud.CopySpec{Name: s.ref.name, Instance: s.at.providerID()})
	if failed == nil && now.disk != nil && !now.isElsewhere() && (now.entry() != nil) == attach {
		return nil
	}
	return err
}

// EnsureCopySnapshot implements cloud.ImageProvider.
func (p copier) EnsureCopySnapshot(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
	donor, err := p.parse(shot.Instance)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	of := snapshotRef{donor.scaleSet, shot.Name}
	if found, err := p.snapshot(ctx, of); err != nil || found.State != cloud.Absent {
		return found, err
	}
	s, err := p.readCopy(cloud.WithoutReadCache(ctx), spec)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	switch have := p.diskCopy(ctx, s); {
	case have.State == cloud.Absent:
		return cloud.Snapshot{}, s.ref.error(cloud.NotFound, "make a snapshot of", "there is no such disk in %s", s.ref.scope())
	case have.State != cloud.Complete || have.IsAttached:
		return cloud.Snapshot{}, s.ref.error(cloud.Conflict, "make a snapshot of", "the copy is %s, and attached: %t; detach the copy first",
			have.State, have.IsAttached)
	case spec.Proven != "" && !strings.EqualFold(spec.Proven, have.ID):
		return cloud.Snapshot{}, s.ref.error(cloud.Invalid, "make a snapshot of", "the copy is %s, and the proof is of %s", have.ID, spec.Proven)
	}
	return p.createSnapshot(ctx, of, shot, s.disk.Location, s.ref.id())
}

// EndCopy implements cloud.ImageProvider.
func (p copier) EndCopy(ctx context.Context, spec cloud.CopySpec) (cloud.State, error) {
	s, err := p.readCopy(cloud.WithoutReadCache(ctx), spec)
	if err != nil {
		return cloud.Absent, err
	}
	clients, err := p.in(s.ref.scaleSet)
	if err != nil {
		return cloud.Absent, err
	}
	switch {
	case s.disk == nil:
		p.forget(s.ref.id())
		p.forget(s.attachment())
		return cloud.Absent, nil
	case s.disk.Properties != nil && strings.EqualFold(value(s.disk.Properties.ProvisioningState), "Deleting"):
		return cloud.Deleting, nil
	case s.entry() != nil && !changing(s.vmState()):
		return cloud.Deleting, p.detach(ctx, s)
	case s.entry() != nil, value(s.disk.ManagedBy) != "": // Azure attaches or detaches the disk
		return cloud.Deleting, nil
	}
	poller, err := clients.disks.BeginDelete(ctx, s.ref.group, s.ref.resource(), nil)
	switch {
	case isNotFound(err), isStatus(err, http.StatusConflict): // Azure still makes or detaches the disk
		return cloud.Deleting, nil
	case err != nil:
		return cloud.Absent, fail("delete", s.ref, err)
	}
	p.forget(s.ref.id())
	rememberOperation(p.account, s.ref.id(), poller)
	return cloud.Deleting, nil
}

// Copies implements cloud.ImageProvider with a request per resource group and page.
func (p copier) Copies(ctx context.Context, families ...cloud.ImageFamily) (found []cloud.CopySpec, err error) {
	err = p.eachPlace(families, func(s scaleSet, clients *clients) error {
		for pager := clients.disks.NewListByResourceGroupPager(s.group, nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return fail("list the disks of the resource group of", s, err)
			}
			for _, d := range page.Value {
				tags := tagsOf(d.Tags)
				if name := tagIn(tags, copyTag); name != "" && !isDeleting(d) {
					found = append(found, cloud.CopySpec{Name: name, Instance: copyOn(s, tagIn(tags, copyOnTag)).providerID(), Tags: ownerTagsOf(d.Tags)})
				}
			}
		}
		return nil
	})
	return slices.Clip(found), err
}

func isDeleting(d *armcompute.Disk) bool {
	return d.Properties != nil && strings.EqualFold(value(d.Properties.ProvisioningState), "Deleting")
}

// copyOn returns the instance in copyOnTag of a copy in a resource group.
func copyOn(s scaleSet, tag string) instance {
	set, number, inSet := strings.Cut(tag, "/")
	if !inSet {
		set, number = "", tag
	}
	s.name = set
	return instance{scaleSet: s, number: number}
}
