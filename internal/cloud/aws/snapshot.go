package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// snapshotRef names a snapshot by region and the caller's name.
type snapshotRef struct{ region, name string }

func (r snapshotRef) String() string { return "snapshot " + r.name }

func (r snapshotRef) key() string { return r.region + "/snapshot/" + r.name }

// Snapshot implements cloud.ImageProvider.
func (p *ImageProvider) Snapshot(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
	owner, err := parseInstance(id)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	ref := snapshotRef{owner.region, name}
	if p.recentlyDeleted(ref.region, ref.key()) { // by DeleteSnapshot of this process
		return cloud.Snapshot{Name: name}, nil
	}
	if made := p.recentlyCreated(ref.key()); made.id != "" && cloud.ReadCacheOf(ctx) != nil && p.config.Now().Sub(made.at) < acceptedLife {
		return acceptedSnapshot(ref, made), nil
	}
	return p.readSnapshot(ctx, ref)
}

// acceptedLife is how long a new snapshot is assumed to be incomplete, if a pass reads the snapshot right after the creation.
const acceptedLife = 5 * time.Second

// acceptedSnapshot is a snapshot as in AWS's answer to CreateSnapshot.
func acceptedSnapshot(ref snapshotRef, made createdResource) cloud.Snapshot {
	return cloud.Snapshot{Name: ref.name, ID: snapshotID(ref.region, made.id), State: cloud.Pending, Taken: true, Tags: maps.Clone(made.tags)}
}

// readSnapshot reads the snapshot of a name. EC2 may show a snapshot of this process late.
func (a *account) readSnapshot(ctx context.Context, ref snapshotRef) (cloud.Snapshot, error) {
	all, err := a.snapshotsNamed(ctx, ref)
	switch {
	case err != nil:
		return cloud.Snapshot{}, err
	case len(all) > 0:
		return a.snapshotOf(ref.region, ref.name, all[0]), nil
	}
	if made := a.recentlyCreated(ref.key()); made.id != "" {
		return acceptedSnapshot(ref, made), nil
	}
	return cloud.Snapshot{Name: ref.name}, nil
}

// snapshotsNamed returns the snapshots of a name. If two processes made snapshots, the oldest is first and valid.
func (a *account) snapshotsNamed(ctx context.Context, ref snapshotRef) ([]types.Snapshot, error) {
	if all, recent := recentlyCompleted(ctx, a, ref); recent {
		return all, nil
	}
	all, err := a.snapshots(ctx, ref.region, ref, types.Filter{Name: sdk.String("tag:" + tagSnapshot), Values: []string{shorten(ref.name, maxTagValue)}})
	for _, s := range all {
		cloud.ReadCacheOf(ctx).Put(snapshotKey(ref.region, sdk.ToString(s.SnapshotId)), s)
	}
	slices.SortFunc(all, func(x, y types.Snapshot) int {
		return cmp.Or(sdk.ToTime(x.StartTime).Compare(sdk.ToTime(y.StartTime)), cmp.Compare(sdk.ToString(x.SnapshotId), sdk.ToString(y.SnapshotId)))
	})
	rememberCompleted(a, ref, all)
	return all, err
}

// completedLife is how long a complete snapshot is assumed to stay. The hand-over follows once the image is available.
const completedLife = consistencyDelay

// completedSnapshots are the complete snapshots of a name, with the time of the read.
type completedSnapshots struct {
	all []types.Snapshot
	at  time.Time
}

// rememberCompleted stores the snapshots of a name if all are complete, and else removes the record.
func rememberCompleted(a *account, ref snapshotRef, all []types.Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.completed, ref.key())
	if len(all) > 0 && !slices.ContainsFunc(all, func(s types.Snapshot) bool { return s.State != types.SnapshotStateCompleted }) {
		a.completed[ref.key()] = completedSnapshots{all, a.config.Now()}
	}
}

// recentlyCompleted returns the complete snapshots of a recent read. Reads without a cache ask AWS.
func recentlyCompleted(ctx context.Context, a *account, ref snapshotRef) ([]types.Snapshot, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.completed[ref.key()]
	if found && a.config.Now().Sub(known.at) >= completedLife {
		delete(a.completed, ref.key())
		found = false
	}
	return slices.Clone(known.all), found && cloud.ReadCacheOf(ctx) != nil
}

// snapshotKey and backsKey are keys of the read cache: a snapshot, and a snapshot that backs an image.
func snapshotKey(region, id string) string { return "aws snapshot " + snapshotID(region, id) }
func backsKey(region, id string) string    { return "aws backs " + snapshotID(region, id) }

// snapshotByID returns a snapshot from the read cache or from AWS; nil without a snapshot.
func (a *account) snapshotByID(ctx context.Context, of fmt.Stringer, region, id string) (*types.Snapshot, error) {
	if seen, found := cloud.ReadCacheOf(ctx).Get(snapshotKey(region, id)); found {
		s := seen.(types.Snapshot) // the key holds only snapshots
		return &s, nil
	}
	out, err := a.ec2(region).DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	if err != nil || len(out.Snapshots) == 0 {
		return nil, fail("read the snapshot of", of, err)
	}
	return &out.Snapshots[0], nil
}

// snapshots lists own snapshots of a region.
func (a *account) snapshots(ctx context.Context, region string, of fmt.Stringer, filter types.Filter) ([]types.Snapshot, error) {
	pages := ec2.NewDescribeSnapshotsPaginator(a.ec2(region),
		&ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: []types.Filter{filter}, MaxResults: sdk.Int32(maxPage)})
	var all []types.Snapshot
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read", of, err)
		}
		all = append(all, page.Snapshots...)
	}
	return all, nil
}

// snapshotOf converts a snapshot of AWS.
func (a *account) snapshotOf(region, name string, s types.Snapshot) cloud.Snapshot {
	out := cloud.Snapshot{Name: name, ID: snapshotID(region, sdk.ToString(s.SnapshotId)), State: snapshotState(s), Tags: tagsOf(s.Tags)}
	if a.recentlyDeleted(region, sdk.ToString(s.SnapshotId)) {
		out.State = cloud.Deleting // EC2 does not show the deletion yet
	}
	out.Taken = out.State == cloud.Pending && s.State == types.SnapshotStatePending // the content is fixed at the request: "Create Amazon EBS snapshots"
	if out.State == cloud.Failed {
		out.Error = cmp.Or(oneLine(sdk.ToString(s.StateMessage)), "AWS gave no reason; a common reason is an encryption key that the credential may not use")
	}
	return out
}

// snapshotState returns a snapshot's state. A snapshot in the recycle bin, or in recovery, is unusable.
func snapshotState(s types.Snapshot) cloud.State {
	switch s.State {
	case types.SnapshotStateCompleted:
		return cloud.Complete
	case types.SnapshotStatePending:
		return cloud.Pending
	case types.SnapshotStateError, types.SnapshotStateRecoverable, types.SnapshotStateRecovering:
		return cloud.Failed
	default:
		return cloud.Pending
	}
}

// EnsureSnapshot implements cloud.ImageProvider. CreateSnapshot has no client token. The name and the process's own
// record prevent duplicates, because EC2 may show a new snapshot late.
func (p *ImageProvider) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	owner, err := parseInstance(spec.Instance)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	ref := snapshotRef{owner.region, spec.Name}
	found, err := beforeSnapshot(ctx, p.account, ref)
	if err != nil || found.State != cloud.Absent {
		return found, err
	}
	m, err := p.readInstance(ctx, owner)
	if err != nil {
		return cloud.Snapshot{}, err
	}
	root := rootOf(m)
	if root == nil {
		return cloud.Snapshot{}, &cloud.Error{Kind: cloud.Unsupported, Op: "make", Resource: ref.String(),
			Message: fmt.Sprintf("the root disk of %s is not an EBS volume: only EBS volumes can be copied", owner)}
	}
	like, err := p.propertiesOf(ctx, owner, m, sdk.ToString(root.VolumeId))
	if err != nil {
		return cloud.Snapshot{}, err
	}
	if err := spec.Begin(ctx); err != nil {
		return cloud.Snapshot{}, err
	}
	return createSnapshot(ctx, p.account, ref, spec.Tags, root.VolumeId, like.String(), billingOf(m.PlatformDetails, m.UsageOperation, m.ProductCodes).String())
}

// beforeSnapshot returns the snapshot of a name as an earlier call made it.
func beforeSnapshot(ctx context.Context, a *account, ref snapshotRef) (cloud.Snapshot, error) {
	forgetDeleted(a, ref.region, ref.key()) // another process may have made a snapshot of the name since
	return a.readSnapshot(ctx, ref)
}

// createSnapshot starts a snapshot of a volume. Its content is fixed at the request, also if the volume is in use.
func createSnapshot(ctx context.Context, a *account, ref snapshotRef, tags map[string]string, volume *string, machine, billing string) (cloud.Snapshot,
	error) {
	own := map[string]string{tagSnapshot: ref.name, tagName: ref.name, tagMachine: machine, tagBilling: billing}
	maps.DeleteFunc(own, func(_, value string) bool { return value == "" })
	made, err := a.ec2(ref.region).CreateSnapshot(ctx, &ec2.CreateSnapshotInput{
		VolumeId: volume, Description: sdk.String("Kamino's, of the node's root disk"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot, Tags: toTags(tags, own)}},
	})
	if err != nil {
		return cloud.Snapshot{}, fail("make", ref, err)
	}
	a.recordCreated(ref.key(), sdk.ToString(made.SnapshotId), tags)
	return cloud.Snapshot{Name: ref.name, ID: snapshotID(ref.region, sdk.ToString(made.SnapshotId)), State: cloud.Pending, Taken: true,
		Tags: tagsOf(made.Tags)}, nil
}

// stolenSnapshot is the error of a snapshot of a disk in use that another client made an image of.
func stolenSnapshot(id string, of fmt.Stringer, err error) error {
	var refused *cloud.Error
	if errors.As(fail("delete", of, err), &refused) {
		refused.Message += fmt.Sprintf("; %s holds the secrets of a running node, and Kamino makes no image of it: find the client that registered the image, "+
			"run `aws ec2 deregister-image --image-id AMI`, and remove the nodes made from it. Kamino then deletes the snapshot", id)
		return refused
	}
	return err
}

// DeleteSnapshot implements cloud.ImageProvider. A snapshot that backs an image is handed over to the image, and is
// deleted with the image.
func (p *ImageProvider) DeleteSnapshot(ctx context.Context, id cloud.InstanceID, name string) error {
	owner, err := parseInstance(id)
	if err != nil {
		return err
	}
	ref := snapshotRef{owner.region, name}
	all, err := p.snapshotsNamed(ctx, ref)
	if err != nil {
		return err
	}
	if made := p.recentlyCreated(ref.key()); len(all) == 0 && made.id != "" {
		all = []types.Snapshot{{SnapshotId: sdk.String(made.id), Tags: toTags(made.tags, nil)}}
	}
	for _, s := range all {
		if tagOf(s.Tags, cloud.TagUID) != tagOf(all[0].Tags, cloud.TagUID) {
			continue // another cluster uses the name; Snapshot shows the first
		}
		if err := p.deleteSnapshot(ctx, ref.region, s, ref); err != nil {
			return err
		}
	}
	rememberCompleted(p.account, ref, nil)
	if len(all) > 0 {
		p.recordDeleted(ref.region, ref.key())
	}
	return nil
}

// deleteSnapshot deletes a snapshot, or hands the snapshot over to images. If the read cache shows an image of the
// snapshot, AWS would refuse the deletion, and there is no request. A snapshot with an end is of a disk in use: no image of Kamino
// needs it, so it keeps its owner until another client's image is gone.
func (a *account) deleteSnapshot(ctx context.Context, region string, s types.Snapshot, of fmt.Stringer) error {
	id, isInUse := sdk.ToString(s.SnapshotId), tagOf(s.Tags, cloud.TagEndsAt) != ""
	if _, backs := cloud.ReadCacheOf(ctx).Get(backsKey(region, id)); !backs || isInUse {
		err := deleteByID(a, of, id, func() error {
			_, err := a.ec2(region).DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: sdk.String(id)})
			return err
		}, func() error {
			_, err := a.ec2(region).DescribeSnapshots(cloud.WithoutReadCache(ctx), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
			return err
		})
		switch {
		case err == nil, isNotFound(err):
			a.recordDeleted(region, id)
			return nil
		case !isCode(err, "InvalidSnapshot.InUse"):
			return fail("delete", of, err)
		case isInUse:
			return stolenSnapshot(id, of, err)
		}
	}
	// A single write for all three tags. An empty value means no name and no UID.
	_, err := a.ec2(region).CreateTags(ctx,
		&ec2.CreateTagsInput{Resources: []string{id}, Tags: toTags(nil, map[string]string{tagBacks: "true", tagSnapshot: "", cloud.TagUID: ""})})
	if err != nil {
		return fail("hand over", of, err)
	}
	a.recordDeleted(region, id)
	return nil
}
