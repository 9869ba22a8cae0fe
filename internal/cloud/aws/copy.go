package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A copy of a donor's disk is a volume from a snapshot of the donor's root volume. The volume is in the zone of its workshop,
// because EC2 attaches volumes within a zone only; snapshots are regional.

const opAttach = "attach"

// copyRef names a copy by region and the caller's name.
type copyRef struct{ region, name string }

func (r copyRef) String() string { return "copy " + r.name }

func (r copyRef) key() string { return r.region + "/copy/" + r.name }

// attachedKey is the request key of the attachment.
func (r copyRef) attachedKey() string { return r.key() + "/attached" }

// error is an error about the copy.
func (r copyRef) error(kind cloud.Kind, op, format string, args ...any) error {
	return &cloud.Error{Kind: kind, Op: op, Resource: r.String(), Message: fmt.Sprintf(format, args...)}
}

// copier implements cloud.DiskCopier, and Copies of cloud.ImageStore.
type copier struct {
	account *account
	begun   *begun[cloud.CopySpec]
}

// copyOf returns the copy of a spec, and its workshop.
func copyOf(spec cloud.CopySpec) (copyRef, instance, error) {
	at, err := parseInstance(spec.Instance)
	return copyRef{at.region, spec.Name}, at, err
}

// CanCopyDisks implements cloud.ImageProvider.
func (p copier) CanCopyDisks() bool { return true }

// CopiesOnRequest implements cloud.ImageProvider.
func (p copier) CopiesOnRequest() bool { return false }

// Copy implements cloud.ImageProvider.
func (p copier) Copy(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	ref, _, err := copyOf(spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	v, err := p.copyVolume(ctx, ref, spec)
	return p.diskCopy(ref, v), err
}

// copyVolume returns the volume of a copy; nil without a volume. A volume that EC2 deletes is the last choice.
func (p copier) copyVolume(ctx context.Context, ref copyRef, spec cloud.CopySpec) (*types.Volume, error) {
	all, err := p.volumes(ctx, ref.region, ref, types.Filter{Name: sdk.String("tag:" + tagCopy), Values: []string{shorten(ref.name, maxTagValue)}})
	all = slices.DeleteFunc(all, func(v types.Volume) bool { return !isCopy(v, spec) })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	v := slices.MinFunc(all, func(x, y types.Volume) int {
		return cmp.Or(cmp.Compare(isDeleted(x), isDeleted(y)), sdk.ToTime(x.CreateTime).Compare(sdk.ToTime(y.CreateTime)))
	})
	return &v, nil
}

// isCopy reports whether a volume with the name of a copy is the copy. Another cluster can use the name, and tags can be written onto
// any volume; the snapshot that a volume was made from never changes.
func isCopy(v types.Volume, spec cloud.CopySpec) bool {
	_, from, isKnown := parseSnapshot(spec.SnapshotID)
	return tagOf(v.Tags, cloud.TagUID) == shorten(spec.Tags[cloud.TagUID], maxTagValue) && (!isKnown || sdk.ToString(v.SnapshotId) == from)
}

// isDeleted is 1 for a volume that EC2 deletes, and else 0.
func isDeleted(v types.Volume) int {
	if v.State == types.VolumeStateDeleting || v.State == types.VolumeStateDeleted {
		return 1
	}
	return 0
}

// volumes lists the volumes of a filter.
func (p copier) volumes(ctx context.Context, region string, of fmt.Stringer, filter types.Filter) ([]types.Volume, error) {
	pages := ec2.NewDescribeVolumesPaginator(p.account.ec2(region), &ec2.DescribeVolumesInput{Filters: []types.Filter{filter}, MaxResults: sdk.Int32(maxPage)})
	var all []types.Volume
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read", of, err)
		}
		all = append(all, page.Volumes...)
	}
	return all, nil
}

// diskCopy returns the state of a copy from its volume, which EC2 may show late.
func (p copier) diskCopy(ref copyRef, v *types.Volume) cloud.DiskCopy {
	if v == nil {
		if id := p.account.recentlyCreated(ref.key()).id; id != "" {
			return cloud.DiskCopy{ID: id, State: cloud.Pending}
		}
		return cloud.DiskCopy{}
	}
	out := cloud.DiskCopy{ID: sdk.ToString(v.VolumeId)}
	on := attachmentOf(*v)
	switch {
	case isDeleted(*v) > 0, p.account.recentlyDeleted(ref.region, out.ID):
		out.State = cloud.Deleting
	case v.State == types.VolumeStateError:
		out.State, out.Error = cloud.Failed, brokenVolume
	case on != nil:
		out.State, out.IsAttached = cloud.Pending, on.State != types.VolumeAttachmentStateAttaching
		if on.State == types.VolumeAttachmentStateAttached {
			out.State = cloud.Complete
		}
		if out.IsAttached {
			out.Device = deviceOf(out.ID, sdk.ToString(on.Device))
		}
	case v.State == types.VolumeStateAvailable && p.account.recentlyCreated(ref.attachedKey()).id != out.ID:
		out.State = cloud.Complete
	default: // also if EC2 does not show the attachment yet
		out.State = cloud.Pending
	}
	return out
}

// brokenVolume is the reason of a volume that EC2 could not make. EC2 checks the key of an encrypted volume after the answer.
const brokenVolume = "AWS could not make the volume, and gave no reason; a common reason is an encryption key that the credential may not use"

// attachmentOf returns the attachment of a volume; nil without one.
func attachmentOf(v types.Volume) *types.VolumeAttachment {
	for i, on := range v.Attachments {
		if on.State != types.VolumeAttachmentStateDetached {
			return &v.Attachments[i]
		}
	}
	return nil
}

// deviceOf returns how a guest finds a volume. On Nitro the serial number is the volume's ID without the dash, and the device's
// name means nothing. On Xen the kernel chooses the name. Sources: EBS User Guide, "Amazon EBS volumes and NVMe"; EC2 User
// Guide, "Device names for volumes".
func deviceOf(volume, name string) cloud.DiskDevice {
	out := cloud.DiskDevice{Serial: strings.ReplaceAll(volume, "-", "")}
	if letter, is := strings.CutPrefix(name, devicePrefix); is {
		out.Names = append(out.Names, "/dev/xvd"+letter)
	}
	out.Names = append(out.Names, name)
	return out
}

// devicePrefix begins the names of devices, and deviceLetters are those for data volumes. Source: "Device names for volumes".
const (
	devicePrefix  = "/dev/sd"
	deviceLetters = "fghijklmnop"
)

// freeDevice returns a free name for a device of an instance; empty without one. EC2 compares the whole name, but two names of a
// letter are one device for the guest.
func freeDevice(m types.Instance) string {
	taken := map[string]bool{}
	for _, d := range m.BlockDeviceMappings {
		name := strings.TrimPrefix(sdk.ToString(d.DeviceName), "/dev/")
		for _, prefix := range []string{"sd", "xvd"} {
			if letter, is := strings.CutPrefix(name, prefix); is && letter != "" {
				taken[letter[:1]] = true
			}
		}
	}
	for _, letter := range strings.Split(deviceLetters, "") {
		if !taken[letter] {
			return devicePrefix + letter
		}
	}
	return ""
}

// EnsureAttached implements cloud.ImageProvider.
func (p copier) EnsureAttached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	ref, at, err := copyOf(spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	v, err := p.copyVolume(ctx, ref, spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	have := p.diskCopy(ref, v)
	if v != nil {
		if on := attachmentOf(*v); on != nil && sdk.ToString(on.InstanceId) != at.id {
			return cloud.DiskCopy{}, ref.error(cloud.Conflict, opAttach, "the copy is a disk of instance %s, not of %s: detach the copy first",
				sdk.ToString(on.InstanceId), at)
		}
	}
	if have.IsAttached || have.State != cloud.Absent && have.State != cloud.Complete {
		return have, nil
	}
	m, err := p.account.readInstance(ctx, at)
	switch {
	case err != nil:
		return cloud.DiskCopy{}, err
	case stateOf(m) != types.InstanceStateNameRunning:
		return cloud.DiskCopy{}, ref.error(cloud.Conflict, opAttach, "%s is %s, not running: at its next boot it could boot from the copy", at, stateOf(m))
	case v == nil:
		return p.makeCopy(ctx, ref, spec, m)
	}
	return p.attachCopy(ctx, ref, *v, at, m)
}

// zoneOf returns the zone of an instance.
func zoneOf(m types.Instance) string {
	if m.Placement == nil {
		return ""
	}
	return sdk.ToString(m.Placement.AvailabilityZone)
}

// makeCopy makes the volume. The client token makes repeated calls return the same volume. The volume is encrypted as the snapshot
// is, with the same key.
func (p copier) makeCopy(ctx context.Context, ref copyRef, spec cloud.CopySpec, m types.Instance) (cloud.DiskCopy, error) {
	in, id, ok := parseSnapshot(spec.SnapshotID)
	if !ok || in != ref.region {
		return cloud.DiskCopy{}, ref.error(cloud.Invalid, opAttach, "%q is not a snapshot in %s", spec.SnapshotID, ref.region)
	}
	from, err := p.account.snapshotByID(ctx, ref, in, id)
	switch {
	case cloud.Is(err, cloud.NotFound) && isRecent(p.account, id):
		return cloud.DiskCopy{}, ref.error(cloud.Conflict, opAttach, "snapshot %s is new, and EC2 does not show it yet", id)
	case err != nil:
		return cloud.DiskCopy{}, err
	case from == nil:
		return cloud.DiskCopy{}, ref.error(cloud.NotFound, opAttach, "there is no snapshot %s", id)
	case snapshotState(*from) != cloud.Complete: // "Snapshot is not 'completed'": CreateVolume
		return cloud.DiskCopy{}, ref.error(cloud.Conflict, opAttach, "snapshot %s is %s: EC2 makes volumes from completed snapshots only", id, from.State)
	}
	own := map[string]string{tagCopy: spec.Name, tagCopyOn: string(spec.Instance), tagName: spec.Name}
	for _, key := range []string{tagMachine, tagBilling} { // EnsureImage needs them on the snapshot of the copy
		if value := tagOf(from.Tags, key); value != "" {
			own[key] = value
		}
	}
	// Not verified on AWS, copies: `CreateVolume` remembers a client token for the time of a capture.
	out, err := p.account.ec2(ref.region).CreateVolume(ctx, &ec2.CreateVolumeInput{
		AvailabilityZone: sdk.String(zoneOf(m)), OutpostArn: m.OutpostArn, SnapshotId: sdk.String(id), VolumeType: types.VolumeTypeGp3,
		ClientToken:       sdk.String("kamino-" + digest(ref.key()+" "+string(spec.Instance))),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: toTags(spec.Tags, own)}},
	})
	switch {
	case isCode(err, "IdempotentParameterMismatch"): // an earlier request had another snapshot or other tags
		return cloud.DiskCopy{State: cloud.Pending}, nil
	case err != nil:
		return cloud.DiskCopy{}, fail("make", ref, err)
	}
	made := sdk.ToString(out.VolumeId)
	if at := sdk.ToTime(out.CreateTime); !at.IsZero() && p.account.config.Now().Sub(at) > consistencyDelay { // the answer to an earlier request
		return cloud.DiskCopy{ID: made, State: cloud.Failed, Error: brokenVolume}, nil
	}
	p.account.recordCreated(ref.key(), made, spec.Tags)
	p.begun.add(ref.key(), cloud.CopySpec{Name: spec.Name, Instance: spec.Instance, Tags: cloud.OwnerTags(spec.Tags)})
	return cloud.DiskCopy{ID: made, State: cloud.Pending}, nil
}

// attachCopy attaches a free volume to a running instance. AttachVolume leaves DeleteOnTermination false: the cleaned copy outlives
// its workshop.
func (p copier) attachCopy(ctx context.Context, ref copyRef, v types.Volume, at instance, m types.Instance) (cloud.DiskCopy, error) {
	if have := sdk.ToString(v.AvailabilityZone); have != zoneOf(m) {
		return cloud.DiskCopy{}, ref.error(cloud.Conflict, opAttach, "the copy is in zone %s, and %s in zone %s: end the copy, and make another",
			have, at, zoneOf(m))
	}
	name := freeDevice(m)
	if name == "" {
		return cloud.DiskCopy{}, tooManyDisks(ref, at, m, fmt.Sprintf("the names %s[%s] are taken", devicePrefix, deviceLetters))
	}
	pending := cloud.DiskCopy{ID: sdk.ToString(v.VolumeId), State: cloud.Pending}
	_, err := p.account.ec2(ref.region).AttachVolume(ctx, &ec2.AttachVolumeInput{Device: sdk.String(name), InstanceId: sdk.String(at.id), VolumeId: v.VolumeId})
	switch {
	case isCode(err, "VolumeInUse", "IncorrectState", "InvalidVolume.NotFound"): // EC2 shows an earlier state of the volume
		return pending, nil
	case isCode(err, "AttachmentLimitExceeded"):
		return cloud.DiskCopy{}, tooManyDisks(ref, at, m, oneLine(err.Error()))
	case isCode(err, "OperationNotPermitted") && strings.Contains(err.Error(), "Marketplace"):
		// Not verified on AWS, copies: `AttachVolume` refuses a volume with product codes with `OperationNotPermitted`.
		return cloud.DiskCopy{}, refuseMarketplace("the donor").Error(opAttach, ref.String())
	case isCode(err, "InvalidParameterValue") && strings.Contains(err.Error(), "already in use"): // since the read
		return cloud.DiskCopy{}, ref.error(cloud.Conflict, opAttach, "another volume has device %s of %s by now: %s", name, at, oneLine(err.Error()))
	case err != nil:
		return cloud.DiskCopy{}, fail(opAttach, ref, err)
	}
	p.account.recordCreated(ref.attachedKey(), pending.ID, nil)
	return pending, nil
}

// tooManyDisks is the error of an instance without room for another disk.
func tooManyDisks(ref copyRef, at instance, m types.Instance, why string) error {
	return ref.error(cloud.QuotaExceeded, opAttach, "%s of type %s has no room for another volume (%s): name a larger type in settings.donor.workshopType",
		at, m.InstanceType, why)
}

// refuseMarketplace refuses a copy of a disk with product codes of the Marketplace. Source: AttachVolume ("The volume can be attached
// only to a stopped instance").
func refuseMarketplace(of string) cloud.Refusal {
	return cloud.Refuse(cloud.DiskUnsupported,
		fmt.Sprintf("%s has a disk with product codes of the AWS Marketplace, which EC2 attaches to no running instance", of),
		"capture the node in place, if it can return")
}

// EnsureDetached implements cloud.ImageProvider. It never forces: a forced detachment may lose writes of the guest.
func (p copier) EnsureDetached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	ref, _, err := copyOf(spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	v, err := p.copyVolume(cloud.WithoutReadCache(ctx), ref, spec)
	if err != nil {
		return cloud.DiskCopy{}, err
	}
	have := p.diskCopy(ref, v)
	if have.State != cloud.Complete || !have.IsAttached {
		return have, nil
	}
	have.State = cloud.Pending
	return have, p.detach(ctx, ref, *v)
}

// detach starts to detach a volume. EC2 may show the attachment for some time.
func (p copier) detach(ctx context.Context, ref copyRef, v types.Volume) error {
	_, err := p.account.ec2(ref.region).DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: v.VolumeId, InstanceId: attachmentOf(v).InstanceId})
	if err != nil && !isCode(err, "IncorrectState") && !isNotFound(err) {
		return fail("detach", ref, err)
	}
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	delete(p.account.created, ref.attachedKey())
	return nil
}

// EnsureCopySnapshot implements cloud.ImageProvider.
func (p copier) EnsureCopySnapshot(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
	ref, _, err := copyOf(spec)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	donor, err := parseInstance(shot.Instance)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	of := snapshotRef{donor.region, shot.Name}
	if found, err := beforeSnapshot(ctx, p.account, of); err != nil || found.State != cloud.Absent {
		return found, err
	}
	v, err := p.copyVolume(cloud.WithoutReadCache(ctx), ref, spec)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	switch have := p.diskCopy(ref, v); {
	case have.State == cloud.Absent:
		return cloud.Snapshot{}, ref.error(cloud.NotFound, "make a snapshot of", "there is no such volume in %s", ref.region)
	case have.State != cloud.Complete || have.IsAttached:
		return cloud.Snapshot{}, ref.error(cloud.Conflict, "make a snapshot of", "the copy is %s, and attached: %t; detach the copy first",
			have.State, have.IsAttached)
	case spec.Proven != "" && spec.Proven != have.ID:
		return cloud.Snapshot{}, ref.error(cloud.Invalid, "make a snapshot of", "the copy is %s, and the proof is of %s", have.ID, spec.Proven)
	}
	return createSnapshot(ctx, p.account, of, shot.Tags, v.VolumeId, tagOf(v.Tags, tagMachine), tagOf(v.Tags, tagBilling))
}

// EndCopy implements cloud.ImageProvider.
func (p copier) EndCopy(ctx context.Context, spec cloud.CopySpec) (cloud.State, error) {
	ref, _, err := copyOf(spec)
	if err != nil {
		return cloud.Absent, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	v, err := p.copyVolume(ctx, ref, spec)
	if err != nil {
		return cloud.Absent, err
	}
	id := p.account.recentlyCreated(ref.key()).id
	switch {
	case v == nil && id == "":
		return cloud.Absent, nil
	case v == nil: // EC2 does not show the volume yet
	case isDeleted(*v) > 0:
		return cloud.Deleting, nil
	case attachmentOf(*v) != nil:
		if attachmentOf(*v).State == types.VolumeAttachmentStateAttached {
			err = p.detach(ctx, ref, *v)
		}
		return cloud.Deleting, err
	default:
		id = sdk.ToString(v.VolumeId)
	}
	err = deleteByID(p.account, ref, id, func() error {
		_, err := p.account.ec2(ref.region).DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: sdk.String(id)})
		return err
	}, func() error {
		_, err := p.account.ec2(ref.region).DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
		return err
	})
	switch {
	case err == nil:
		p.account.recordDeleted(ref.region, id)
	case isNotFound(err) && v != nil:
		return cloud.Absent, nil
	case !isNotFound(err) && !isCode(err, "VolumeInUse", "IncorrectState"): // EC2 still makes or detaches the volume
		return cloud.Absent, fail("delete", ref, err)
	}
	return cloud.Deleting, nil
}

// Copies implements cloud.ImageProvider with a request per region and page.
func (p copier) Copies(ctx context.Context, families ...cloud.ImageFamily) ([]cloud.CopySpec, error) {
	var found []cloud.CopySpec
	for _, place := range placesOf(families) {
		all, err := p.volumes(ctx, place, text("the copies in "+place), types.Filter{Name: sdk.String("tag-key"), Values: []string{tagCopy}})
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, v := range all {
			name := tagOf(v.Tags, tagCopy)
			if seen[copyRef{place, name}.key()] = true; isDeleted(v) == 0 && !p.account.recentlyDeleted(place, sdk.ToString(v.VolumeId)) {
				found = append(found, cloud.CopySpec{Name: name, Instance: cloud.InstanceID(tagOf(v.Tags, tagCopyOn)), Tags: cloud.OwnerTags(tagsOf(v.Tags))})
			}
		}
		found = append(found, p.unlistedCopies(place, seen)...)
	}
	return found, nil
}

// unlistedCopies returns the recent copies of this process that EC2 does not show yet.
func (p copier) unlistedCopies(place string, seen map[string]bool) (more []cloud.CopySpec) {
	p.begun.recent(p.account.isRecentlyCreated, func(key string, spec cloud.CopySpec) {
		if strings.HasPrefix(key, copyRef{region: place}.key()) && !seen[key] {
			more = append(more, spec)
		}
	})
	return more
}
