package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opRebuild = "rebuild"

// CanRebuild implements cloud.PoolProvider.
func (p *PoolProvider) CanRebuild(cloud.PoolID) bool { return true }

// EnsureRebuilt implements cloud.PoolProvider. EC2 replaces the root volume of a running instance by the image and reboots.
// The instance keeps the user data of its launch.
func (p *PoolProvider) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	m, err := p.readInstance(ctx, ref)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	of, want, err := p.rebuiltFrom(ctx, ref, version)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	now, err := p.imageTextOf(ctx, ref.region, sdk.ToString(m.ImageId))
	if err != nil {
		return cloud.Rebuild{}, err
	}
	last, err := p.lastRebuild(ctx, ref)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	switch {
	case last != nil && underway(last.TaskState):
		return cloud.Rebuild{State: cloud.Pending}, nil
	case last == nil && p.recentlyCreated(rebuildKey(ref, want)).id != "": // EC2 does not show the task yet
		return cloud.Rebuild{State: cloud.Pending}, nil
	case now == want && (last == nil || last.TaskState == types.ReplaceRootVolumeTaskStateSucceeded):
		return cloud.Rebuild{State: cloud.Complete}, nil
	}
	return p.replaceRoot(ctx, ref, of, want, last)
}

// replaceRoot starts to replace an instance's root volume. Trouble reports the failure of the last replacement.
func (p *PoolProvider) replaceRoot(ctx context.Context, ref instance, of group, image string, last *types.ReplaceRootVolumeTask) (cloud.Rebuild, error) {
	im, err := p.availableImage(ctx, opRebuild, of, of.region, image)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	in := &ec2.CreateReplaceRootVolumeTaskInput{InstanceId: sdk.String(ref.id), ImageId: im.ImageId, DeleteReplacedRootVolume: sdk.Bool(true)}
	if rate, has := rateOf(im); has {
		in.VolumeInitializationRate = sdk.Int64(int64(rate))
	}
	before := "" // a new replacement follows the last one
	if last != nil {
		before = sdk.ToString(last.ReplaceRootVolumeTaskId)
	}
	in.ClientToken = sdk.String("kamino-" + digest(ref.id+" "+sdk.ToString(im.ImageId)+" "+before))
	out, err := p.ec2(ref.region).CreateReplaceRootVolumeTask(ctx, in)
	if err != nil {
		return cloud.Rebuild{}, fail(opRebuild, ref, err)
	}
	if out.ReplaceRootVolumeTask != nil {
		p.recordCreated(rebuildKey(ref, image), sdk.ToString(out.ReplaceRootVolumeTask.ReplaceRootVolumeTaskId), nil)
	}
	have := cloud.Rebuild{State: cloud.Pending}
	if last != nil && last.TaskState != types.ReplaceRootVolumeTaskStateSucceeded {
		have.Trouble = fmt.Sprintf("replacing the root volume ended as %s; EC2 gives no reason", last.TaskState)
	}
	return have, nil
}

func rebuildKey(ref instance, image string) string {
	return ref.region + "/rebuild/" + ref.id + "/" + image
}

// rebuiltFrom returns the group of an instance and the image of the version. The group's recipe must name the image.
func (p *PoolProvider) rebuiltFrom(ctx context.Context, ref instance, version string) (group, string, error) {
	found, err := p.PoolsOf(ctx, []cloud.NodeValues{{ProviderID: ref.providerID()}})
	if err != nil {
		return group{}, "", err
	}
	if found[0].Pool == "" {
		return group{}, "", &cloud.Error{Kind: cloud.Conflict, Op: opRebuild, Resource: ref.String(), Message: found[0].Why}
	}
	of, err := parsePool(found[0].Pool)
	if err != nil {
		return of, "", err
	}
	r, err := p.recipe(ctx, of)
	if err != nil {
		return of, "", err
	}
	want := imageText(cloud.FamilyVersion{Family: cloud.ImageFamily{Place: of.region, Name: of.name}, Version: version})
	if r.image != want {
		return of, "", &cloud.Error{Kind: cloud.Conflict, Op: opRebuild, Resource: ref.String(),
			Message: fmt.Sprintf("%s builds new instances from %s, not from %s: point the group at the version first", of, or(r.image, "nothing"), want)}
	}
	return of, want, nil
}

// lastRebuild returns the newest replacement of an instance's root volume; nil without a replacement.
func (a *account) lastRebuild(ctx context.Context, ref instance) (*types.ReplaceRootVolumeTask, error) {
	pages := ec2.NewDescribeReplaceRootVolumeTasksPaginator(a.ec2(ref.region),
		&ec2.DescribeReplaceRootVolumeTasksInput{Filters: []types.Filter{{Name: sdk.String("instance-id"), Values: []string{ref.id}}}})
	var last *types.ReplaceRootVolumeTask
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read the root volume of", ref, err)
		}
		for i, task := range page.ReplaceRootVolumeTasks {
			// StartTime is a text of fixed format, and text order is time order.
			if last == nil || sdk.ToString(task.StartTime) >= sdk.ToString(last.StartTime) {
				last = &page.ReplaceRootVolumeTasks[i]
			}
		}
	}
	return last, nil
}

// underway reports whether a replacement is running.
func underway(state types.ReplaceRootVolumeTaskState) bool {
	return state == types.ReplaceRootVolumeTaskStatePending || state == types.ReplaceRootVolumeTaskStateInProgress ||
		state == types.ReplaceRootVolumeTaskStateFailing
}
