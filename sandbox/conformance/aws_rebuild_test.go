package conformance

import (
	"path"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// rootTasks returns the replacements of an instance's root volume.
func (w *amazonGroup) rootTasks(id string) []ec2types.ReplaceRootVolumeTask {
	w.Helper()
	out, err := w.raw.DescribeReplaceRootVolumeTasks(w.Context(), &ec2.DescribeReplaceRootVolumeTasksInput{
		Filters: []ec2types.Filter{{Name: sdk.String("instance-id"), Values: []string{id}}}})
	w.must(err)
	return out.ReplaceRootVolumeTasks
}

// TestAWSRebuildsOnce loses the answer of a rebuild, and asks from another process while EC2 does not show the task.
// The instance is rebuilt once, and the new root volume has the rate of the image.
func TestAWSRebuildsOnce(t *testing.T) {
	const version, rate = "2026.03.14", 200
	w := newGroup(t, atOnce, "1").suspendReplacement()
	ref := cloud.FamilyVersion{Family: amazonLine, Version: version}
	w.until("stopped", func() bool {
		power, err := w.disks.EnsureStopped(t.Context(), w.ids[0])
		w.must(err)
		return power == cloud.PowerStopped
	})
	snapshot := w.shot(version)
	w.until("published", func() bool {
		im, err := w.disks.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshot.ID, InitializationRate: rate})
		w.must(err)
		return im.State == cloud.Complete
	})
	w.must(w.recipes.SetRecipe(t.Context(), w.change(version)))
	other := w.ids[1]
	id := path.Base(string(other))
	w.fault(fault.Fault{Name: "lost", Operation: "CreateReplaceRootVolumeTask", Phase: fault.After, Drop: true, Count: 1})
	if have, err := w.recipes.EnsureRebuilt(t.Context(), other, version); err == nil {
		t.Fatalf("the answer was not lost: %+v", have)
	}
	if all := w.rootTasks(id); len(all) > 0 {
		t.Fatalf("EC2 shows the task at once: %+v", all)
	}
	config, err := provider.Load(t.Context(), "")
	w.must(err)
	config.Now = w.now
	_, restarted := provider.New(config)
	w.until("rebuilt", func() bool {
		have, err := restarted.EnsureRebuilt(t.Context(), other, version)
		w.must(err)
		return have.State == cloud.Complete
	})
	w.advance(time.Minute)
	if all := w.rootTasks(id); len(all) != 1 || all[0].TaskState != ec2types.ReplaceRootVolumeTaskStateSucceeded {
		t.Errorf("the instance has the tasks %+v, want one that succeeded", all)
	}
	if all := w.list(); len(all) != 2 {
		t.Errorf("the group has the instances %v, want two", all)
	}
	out, err := w.raw.DescribeVolumes(t.Context(),
		&ec2.DescribeVolumesInput{Filters: []ec2types.Filter{{Name: sdk.String("attachment.instance-id"), Values: []string{id}}}})
	w.must(err)
	if len(out.Volumes) != 1 || sdk.ToInt32(out.Volumes[0].VolumeInitializationRate) != rate {
		t.Errorf("the instance has the volumes %+v, want one with a rate of %d MiB/s", out.Volumes, rate)
	}
}

// TestAWSReadsEveryPage has more snapshots and images than a page of five holds. EC2 pages only if a request has a size.
func TestAWSReadsEveryPage(t *testing.T) {
	w := newAmazon(t, awsImage)
	versions := []string{"2026.03.11", "2026.03.12", "2026.03.13", "2026.03.14", "2026.03.15", "2026.03.16"}
	for _, version := range versions {
		w.published(version)
	}
	w.advance(time.Minute)
	requests := func() map[string]int {
		n := map[string]int{}
		for _, r := range w.server.Requests() {
			n[r.Operation]++
		}
		return n
	}
	before := requests()
	snapshots, err := w.disks.Snapshots(t.Context(), amazonLine)
	w.must(err)
	images, err := w.disks.Images(t.Context(), amazonLine)
	w.must(err)
	after := requests()
	if len(snapshots) != len(versions) || len(images) != len(versions) {
		t.Errorf("%d snapshots and %d images, want %d of both", len(snapshots), len(images), len(versions))
	}
	for _, operation := range []string{"DescribeSnapshots", "DescribeImages"} {
		if n := after[operation] - before[operation]; n < 2 {
			t.Errorf("%d requests %s, want one for each page", n, operation)
		}
	}
}
